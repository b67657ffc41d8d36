//! The chat as plain lines, for pipes and scripts: each line of standard input is sent, each event is one line.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use pigeonhole_client::{Kind, Message, UserId};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, sleep_until};

use crate::connection::Talk;
use crate::group::happened;
use crate::media::{carried, with_caption};
use crate::room::News;
use crate::text::sanitise;

/// How long the end of standard input waits for the next answer.
const ANSWERS_WAIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(me: &UserId, talk: &mut Talk) -> Result<()> {
    let mut printer = Printer::new(me);
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let mut said = 0;
    let mut leave_at = None;
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    while leave_at.is_none() || !talk.room.is_at_rest() {
        let unanswered = talk.room.unanswered();
        tokio::select! {
            line = input.next_line(), if leave_at.is_none() => match line? {
                Some(line) if line.is_empty() => {}
                Some(line) => {
                    said += 1;
                    printer.print(talk.say(line).await)?;
                }
                None => leave_at = Some(Instant::now() + ANSWERS_WAIT),
            },
            news = talk.news() => {
                printer.print(news?)?;
                // The bound is on silence: many lines may take longer.
                if talk.room.unanswered() < unanswered {
                    leave_at = leave_at.map(|_| Instant::now() + ANSWERS_WAIT);
                }
            }
            () = sleep_until(leave_at.unwrap_or_else(Instant::now)), if leave_at.is_some() => match unanswered {
                0 => bail!("left before the server had said what was missed"),
                unanswered => bail!("left with {unanswered} of {said} messages unanswered"),
            },
            interrupted = &mut interrupt => return Ok(interrupted?),
        }
    }
    match printer.failed {
        0 => Ok(()),
        failed => bail!("{failed} of {said} messages were refused"),
    }
}

struct Printer {
    me: UserId,
    failed: usize,
    missing: bool,
    offline: Option<String>,
}

impl Printer {
    fn new(me: &UserId) -> Self {
        Self { me: me.clone(), failed: 0, missing: false, offline: None }
    }

    fn print(&mut self, news: Vec<News>) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        for line in news.into_iter().flat_map(|news| self.lines(news)) {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }

    fn lines(&mut self, news: News) -> Vec<String> {
        let mut lines = Vec::new();
        match news {
            News::Connecting => {}
            News::Online => {
                self.offline = None;
                lines.push("-- connected".to_owned());
            }
            News::Offline { why, .. } => {
                // Said once, not at each try.
                if self.offline.as_ref() != Some(&why) {
                    lines.push(format!("-- offline: {why}"));
                }
                self.offline = Some(why);
            }
            News::Replaced => lines.push("-- this is one connection too many: the next line opens it again".to_owned()),
            News::Opened(name) => lines.push(format!("-- {name}")),
            News::Named(title) => lines.push(format!("-- the group is called {title}")),
            News::Settings(set) if set.is_empty() => lines.push("-- nothing is set".to_owned()),
            News::Settings(set) => lines.push(format!("-- {set}")),
            News::Message { message, missed } => {
                if missed && !std::mem::replace(&mut self.missing, missed) {
                    lines.push("-- while you were away".to_owned());
                }
                lines.extend(self.said(&message));
            }
            News::Delivered { up_to } => lines.push(format!("✓✓ delivered up to {up_to}")),
            News::Read { up_to } => lines.push(format!("✓✓ read up to {up_to}")),
            News::Elsewhere { title, sender_id, body, count } => {
                let place = title.map(|title| format!("{title} · ")).unwrap_or_default();
                let more = if count > 1 { format!(" ({count} new)") } else { String::new() };
                lines.push(format!("~ {place}{sender_id}: {body}{more}"));
            }
            News::Failed { what, why, .. } => {
                self.failed += 1;
                lines.push(format!("!! {what}: {why}"));
            }
            News::Told(text) => lines.push(format!("-- {text}")),
            News::Notice(text) => lines.push(format!("!! {text}")),
            News::UpToDate => {
                self.missing = false;
                lines.push("-- up to date".to_owned());
            }
        }
        lines.iter().map(|line| sanitise(line)).collect()
    }

    /// A message, or what became of one.
    fn said(&self, message: &Message) -> Option<String> {
        let Message { conversation_id, kind, sender_id, body, version, target_seq, emoji, system, .. } = message;
        if let Some(system) = system {
            return happened(system, conversation_id, sender_id, &self.me).map(|text| format!("-- {text}"));
        }
        let own = *sender_id == self.me;
        let who = if own { "you" } else { sender_id.as_str() };
        if message.deleted_at.is_some() {
            return Some(format!("{who}: (deleted)"));
        }
        let target = target_seq.map_or(String::new(), |seq| format!("#{seq}"));
        Some(match (kind, emoji) {
            (Kind::Text, _) if own => format!("you: {body} ✓"),
            (Kind::Text, _) => format!("{who}: {body}"),
            (Kind::Image | Kind::File | Kind::Voice, _) => {
                let tick = if own { " ✓" } else { "" };
                format!("{who}: {}{tick}", with_caption(carried(message), body))
            }
            // One without a version is about a message that is deleted by now.
            (Kind::Edit, _) => match version {
                Some(_) => format!("-- {who} edited {target}: {body}"),
                None => return None,
            },
            (Kind::Delete, _) => format!("-- {who} deleted {target}"),
            (Kind::Reaction, Some(emoji)) => format!("-- {who} reacted to {target}: {}", emoji.as_str()),
            (Kind::Reaction, None) => format!("-- {who} took back a reaction to {target}"),
            (Kind::System | Kind::Other(_), _) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use pigeonhole_client::{Emoji, Seq};

    use super::*;
    use crate::room::tests::{message, user};

    fn heard(seq: u64, sender: &str, body: &str, missed: bool) -> News {
        let mut message = message("dm_ab", seq, sender);
        body.clone_into(&mut message.body);
        News::Message { message, missed }
    }

    #[test]
    fn one_line_each_and_nothing_raw() {
        let mut printer = Printer::new(&user("alice"));
        assert_eq!(printer.lines(heard(1, "bob", "hi", false)), ["bob: hi"]);
        assert_eq!(printer.lines(heard(2, "alice", "hello", false)), ["you: hello ✓"]);
        let missed = printer.lines(heard(3, "bob", "one\ntwo\x1b[2J", true));
        assert_eq!(missed, ["-- while you were away", "bob: one␊two␛[2J"]);
        assert_eq!(printer.lines(heard(4, "bob", "more", true)), ["bob: more"]);
        assert_eq!(printer.lines(News::Read { up_to: Seq::new(4).unwrap() }), ["✓✓ read up to 4"]);
        let change = |seq, sender, kind, emoji: Option<&str>, version| {
            let mut entry = message("dm_ab", seq, sender);
            (entry.kind, entry.target_seq, entry.version) = (kind, Seq::new(3), version);
            entry.emoji = emoji.and_then(|emoji| Emoji::parse(emoji).ok());
            entry.body = "new\x07".to_owned();
            News::Message { message: entry, missed: false }
        };
        for (news, line) in [
            (change(5, "bob", Kind::Edit, None, Some(2)), Some("-- bob edited #3: new␇")),
            (change(5, "bob", Kind::Edit, None, None), None),
            (change(6, "alice", Kind::Delete, None, None), Some("-- you deleted #3")),
            (change(7, "bob", Kind::Reaction, Some("👍"), None), Some("-- bob reacted to #3: 👍")),
            (change(8, "alice", Kind::Reaction, None, None), Some("-- you took back a reaction to #3")),
        ] {
            assert_eq!(printer.lines(news), line.into_iter().collect::<Vec<_>>());
        }
        let mut added = message("gr_ab", 5, "bob");
        added.system = serde_json::from_str(r#"{"event":"members.added","members":["alice","carol"]}"#).ok();
        let added = News::Message { message: added, missed: false };
        assert_eq!(printer.lines(added), ["-- bob added you, carol"]);
        let title = Some("Trip".to_owned());
        let elsewhere = News::Elsewhere { title, sender_id: user("carol"), body: "psst".to_owned(), count: 2 };
        assert_eq!(printer.lines(elsewhere), ["~ Trip · carol: psst (2 new)"]);
        let mut poll = message("dm_ab", 5, "bob");
        poll.kind = Kind::Other("poll".to_owned());
        assert!(printer.lines(News::Message { message: poll, missed: false }).is_empty());
    }

    #[test]
    fn the_same_trouble_is_said_once() {
        let mut printer = Printer::new(&user("alice"));
        let offline = || News::Offline { why: "no server".into(), retry_at: std::time::Instant::now() };
        assert_eq!(printer.lines(offline()), ["-- offline: no server"]);
        assert!(printer.lines(News::Connecting).is_empty());
        assert!(printer.lines(offline()).is_empty());
        assert_eq!(printer.lines(News::Online), ["-- connected"]);
        assert_eq!(printer.lines(offline()), ["-- offline: no server"]);
    }
}
