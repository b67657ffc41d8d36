//! Errors as the log has them.

use std::error::Error;
use std::fmt::Write as _;

/// The error's text with those of its causes, outermost first. Never their `Debug` form, which can hold what was sent or
/// received.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // Writing to a String can't fail.
        let _ = write!(text, ": {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("outer")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn causes_follow_the_error() {
        assert_eq!(error_chain(&Outer("x".parse::<u8>().unwrap_err())), "outer: invalid digit found in string");
    }
}
