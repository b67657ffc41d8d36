//! The chat as plain lines, for pipes and scripts: each line of standard input is sent, each event is one line.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};

use crate::room::{Event, News};
use crate::text::sanitise;

/// How long the end of standard input waits for the next answer.
const ANSWERS_WAIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(me: &str, say: &UnboundedSender<String>, mut news: UnboundedReceiver<News>) -> Result<()> {
    let mut printer = Printer::new(me);
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    // Counted from here and not by the printer, which hears of a line only after the connection has it.
    let mut said = 0;
    let mut leave_at = None;
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        if leave_at.is_some() && printer.up_to_date && printer.answered == said {
            break;
        }
        tokio::select! {
            line = input.next_line(), if leave_at.is_none() => match line? {
                Some(line) if line.is_empty() => {}
                Some(line) => {
                    said += 1;
                    if say.send(line).is_err() {
                        return Ok(());
                    }
                }
                None => leave_at = Some(Instant::now() + ANSWERS_WAIT),
            },
            next = news.recv() => match next {
                Some(next) => {
                    let answered = printer.answered;
                    print(&printer.lines(next))?;
                    // The bound is on silence: many lines may take longer.
                    if printer.answered > answered {
                        leave_at = leave_at.map(|_| Instant::now() + ANSWERS_WAIT);
                    }
                }
                // The connection has ended for good, and says why itself.
                None => return Ok(()),
            },
            () = sleep_until(leave_at.unwrap_or_else(Instant::now)), if leave_at.is_some() => {
                match said - printer.answered {
                    0 => bail!("left before the server had said what was missed"),
                    unanswered => bail!("left with {unanswered} of {said} messages unanswered"),
                }
            }
            interrupted = &mut interrupt => return Ok(interrupted?),
        }
    }
    match printer.failed {
        0 => Ok(()),
        failed => bail!("{failed} of {said} messages were refused"),
    }
}

fn print(lines: &[String]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

struct Printer {
    me: String,
    waiting: BTreeSet<String>,
    answered: usize,
    failed: usize,
    up_to_date: bool,
    missing: bool,
    offline: Option<String>,
}

impl Printer {
    fn new(me: &str) -> Self {
        Self {
            me: me.to_owned(),
            waiting: BTreeSet::new(),
            answered: 0,
            failed: 0,
            up_to_date: false,
            missing: false,
            offline: None,
        }
    }

    fn lines(&mut self, news: News) -> Vec<String> {
        let lines = match news {
            News::Connecting => vec![],
            News::Online => {
                self.offline = None;
                vec!["-- connected".to_owned()]
            }
            News::Offline { why, .. } => {
                self.up_to_date = false;
                // Said once, not at each try.
                let known = self.offline.as_ref() == Some(&why);
                let line = format!("-- offline: {why}");
                self.offline = Some(why);
                if known { vec![] } else { vec![line] }
            }
            News::Event(event) => self.event_lines(event),
        };
        lines.iter().map(|line| sanitise(line)).collect()
    }

    fn event_lines(&mut self, event: Event) -> Vec<String> {
        match event {
            Event::Waiting { client_msg_id, .. } => {
                self.waiting.insert(client_msg_id);
                vec![]
            }
            Event::Message { message, missed } => {
                let mut lines = Vec::new();
                if missed && !std::mem::replace(&mut self.missing, missed) {
                    lines.push("-- while you were away".to_owned());
                }
                if message.client_msg_id.is_some_and(|id| self.waiting.remove(&id)) {
                    self.answered += 1;
                }
                lines.push(if message.sender_id == self.me {
                    format!("you: {} ✓", message.body)
                } else {
                    format!("{}: {}", message.sender_id, message.body)
                });
                lines
            }
            Event::Delivered { up_to } => vec![format!("✓✓ delivered up to {up_to}")],
            Event::Read { up_to } => vec![format!("✓✓ read up to {up_to}")],
            Event::Elsewhere { sender_id, body, count: 1 } => vec![format!("~ {sender_id}: {body}")],
            Event::Elsewhere { sender_id, body, count } => vec![format!("~ {sender_id}: {body} ({count} new)")],
            Event::Failed { client_msg_id, body, why } => {
                self.waiting.remove(&client_msg_id);
                self.answered += 1;
                self.failed += 1;
                vec![format!("!! not sent: {body}: {why}")]
            }
            Event::Notice(text) => vec![format!("!! {text}")],
            Event::UpToDate => {
                self.up_to_date = true;
                self.missing = false;
                vec!["-- up to date".to_owned()]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pigeonhole_client::Message;

    fn message(seq: u64, sender: &str, body: &str, missed: bool) -> News {
        let message = Message {
            conversation_id: "dm_x".into(),
            seq,
            message_id: "x".into(),
            sender_id: sender.into(),
            kind: "text".into(),
            body: body.into(),
            sent_at: String::new(),
            client_msg_id: None,
        };
        News::Event(Event::Message { message, missed })
    }

    #[test]
    fn one_line_each_and_nothing_raw() {
        let mut printer = Printer::new("alice");
        assert_eq!(printer.lines(message(1, "bob", "hi", false)), ["bob: hi"]);
        assert_eq!(printer.lines(message(2, "alice", "hello", false)), ["you: hello ✓"]);
        assert_eq!(
            printer.lines(message(3, "bob", "one\ntwo\x1b[2J", true)),
            ["-- while you were away", "bob: one␊two␛[2J"]
        );
        assert_eq!(printer.lines(message(4, "bob", "more", true)), ["bob: more"]);
        assert_eq!(printer.lines(News::Event(Event::Read { up_to: 4 })), ["✓✓ read up to 4"]);
    }

    #[test]
    fn the_same_trouble_is_said_once() {
        let mut printer = Printer::new("alice");
        let offline = || News::Offline { why: "no server".into(), retry_at: std::time::Instant::now() };
        assert_eq!(printer.lines(offline()), ["-- offline: no server"]);
        assert!(printer.lines(News::Connecting).is_empty());
        assert!(printer.lines(offline()).is_empty());
        assert_eq!(printer.lines(News::Online), ["-- connected"]);
        assert_eq!(printer.lines(offline()), ["-- offline: no server"]);
    }
}
