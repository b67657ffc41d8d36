//! The order in which calls are let through, as text that names it: `0,1,1.1,0!killed`.

use std::fmt;
use std::str::FromStr;

use crate::Fault;

/// Which call comes next, and what goes wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub actor: usize,
    /// Position among the actor's concurrent calls: 0 is the first, 1 the second, …
    pub nth: usize,
    pub fault: Option<Fault>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.actor)?;
        if self.nth > 0 {
            write!(f, ".{}", self.nth)?;
        }
        self.fault.map_or(Ok(()), |fault| write!(f, "!{fault}"))
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unreadable = || format!("{text} is no step; one is, for example, 0 or 1.1 or 0!killed");
        let (place, fault) = text.split_once('!').map_or((text, None), |(place, fault)| (place, Some(fault)));
        let fault = match fault {
            None => None,
            Some(name) => Some(name.parse().map_err(|()| unreadable())?),
        };
        let (actor, nth) = place.split_once('.').unwrap_or((place, "0"));
        let number = |text: &str| text.parse().map_err(|_| unreadable());
        Ok(Self { actor: number(actor)?, nth: number(nth)?, fault })
    }
}

/// Steps from text, separated by commas; no text is no step.
///
/// # Errors
/// Which part can't be read.
pub fn parse_steps(text: &str) -> Result<Vec<Step>, String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::{Step, parse_steps};
    use crate::Fault;

    #[test]
    fn steps_read_as_they_are_written() {
        let text = "0,1.1,0!killed,2.3!reply-lost,1!503";
        let steps = parse_steps(text).unwrap();
        assert_eq!(steps[2], Step { actor: 0, nth: 0, fault: Some(Fault::Killed) });
        assert_eq!(steps.iter().map(Step::to_string).collect::<Vec<_>>().join(","), text);
        assert_eq!(parse_steps("").unwrap(), []);
        assert!(parse_steps("0,x").is_err());
        assert!(parse_steps("0!tired").is_err());
    }
}
