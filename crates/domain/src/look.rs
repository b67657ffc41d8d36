//! A retry for `notify`: an attribute of a member's row, whose change brings the row back with a later batch of the
//! stream.

use wire::{Seq, Timestamp};

/// Why `notify` reads a row again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub what: Wanted,
    /// How often it has failed.
    pub tries: u32,
    /// The time of the request, which makes each one different.
    pub at: Timestamp,
}

/// The task for the member's phones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Fewer are unread, or the mute changed: a badge that counts the conversation is wrong.
    Badge,
    /// A badge counted the conversation, which is read.
    Uncounted,
    /// The message at this seq has another text by now.
    Edited(Seq),
    /// Notifications up to this seq must be dismissed.
    Clear(Seq),
    /// Phones get a push for the message at `seq`, if the member still lacks it.
    Ring { seq: Seq, sent_at: Timestamp },
}

impl Look {
    /// For the first time.
    pub fn new(what: Wanted, at: Timestamp) -> Self {
        Self { what, tries: 0, at }
    }

    /// As a row has it.
    pub fn stored(&self) -> String {
        let what = match self.what {
            Wanted::Badge => "badge".to_owned(),
            Wanted::Uncounted => "uncounted".to_owned(),
            Wanted::Edited(seq) => format!("edited {seq}"),
            Wanted::Clear(seq) => format!("clear {seq}"),
            Wanted::Ring { seq, sent_at } => format!("ring {seq} {}", sent_at.millis()),
        };
        format!("{} {} {what}", self.at.millis(), self.tries)
    }

    /// Parses a row's attribute. Returns `None` if a later version wrote it; that version handles it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (at, tries) = (time(words.next()?)?, words.next()?.parse().ok()?);
        let (what, seq) = (words.next()?, words.next().and_then(|word| Seq::new(word.parse().ok()?)));
        let sent_at = words.next().and_then(time);
        let what = match what {
            "badge" => Wanted::Badge,
            "uncounted" => Wanted::Uncounted,
            "edited" => Wanted::Edited(seq?),
            "clear" => Wanted::Clear(seq?),
            "ring" => Wanted::Ring { seq: seq?, sent_at: sent_at? },
            _ => return None,
        };
        Some(Self { what, tries, at })
    }
}

fn time(word: &str) -> Option<Timestamp> {
    word.parse().ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_read_as_it_was_written_and_another_is_none() {
        let (at, sent_at) = (Timestamp::from_millis(1_800_000_000_123), Timestamp::from_millis(1_800_000_000_000));
        let seq = Seq::new(7).unwrap();
        let all = [Wanted::Badge, Wanted::Uncounted, Wanted::Edited(seq), Wanted::Clear(seq)];
        for what in all.into_iter().chain([Wanted::Ring { seq, sent_at }]) {
            let look = Look { what, tries: 2, at };
            assert_eq!(Look::parse(&look.stored()), Some(look), "{}", look.stored());
        }
        for other in ["", "1", "1 0", "1 0 ring", "1 0 ring 7", "1 0 ring x 1", "1 0 poll 7", "x 0 badge", "1 x badge"]
        {
            assert_eq!(Look::parse(other), None, "{other}");
        }
    }
}
