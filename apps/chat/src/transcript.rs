//! What the screen shows, as rows of styled text. Knows no terminal, only how wide one is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crossterm::style::{StyledContent, Stylize};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use unicode_width::UnicodeWidthStr;

use crate::room::{Event, News};
use crate::text::{sanitise, truncate, wrap};
use pigeonhole_client::Message;

/// User ids may be 128 characters long; a name on the screen may not.
const NAME_COLUMNS_MAX: usize = 24;

pub(crate) type Row = Vec<StyledContent<String>>;

pub(crate) struct Transcript {
    me: String,
    peer: String,
    offset: UtcOffset,
    messages: BTreeMap<u64, Message>,
    /// Where "while you were away" stands: before these.
    missed_from: BTreeSet<u64>,
    missing: bool,
    /// Lines about other things, each after the message that was the last one then.
    notices: BTreeMap<u64, Vec<StyledContent<String>>>,
    /// Own messages without a seq: id and body.
    waiting: Vec<(String, String)>,
    peer_delivered: u64,
    peer_read: u64,
    connection: Connection,
}

enum Connection {
    Connecting,
    CatchingUp,
    Connected,
    Offline { why: String, retry_at: Instant },
}

impl Transcript {
    pub(crate) fn new(me: &str, peer: &str, offset: UtcOffset) -> Self {
        Self {
            me: me.to_owned(),
            peer: peer.to_owned(),
            offset,
            messages: BTreeMap::new(),
            missed_from: BTreeSet::new(),
            missing: false,
            notices: BTreeMap::new(),
            waiting: Vec::new(),
            peer_delivered: 0,
            peer_read: 0,
            connection: Connection::Connecting,
        }
    }

    pub(crate) fn apply(&mut self, news: News) {
        match news {
            News::Connecting => {
                // The reason stays in sight while the next try runs.
                if !matches!(self.connection, Connection::Offline { .. }) {
                    self.connection = Connection::Connecting;
                }
            }
            News::Online => self.connection = Connection::CatchingUp,
            News::Offline { why, retry_at } => self.connection = Connection::Offline { why, retry_at },
            News::Event(event) => self.apply_event(event),
        }
    }

    fn apply_event(&mut self, event: Event) {
        match event {
            Event::Waiting { client_msg_id, body } => self.waiting.push((client_msg_id, body)),
            Event::Message { message, missed } => {
                if missed && !std::mem::replace(&mut self.missing, missed) {
                    self.missed_from.insert(message.seq);
                }
                if let Some(id) = &message.client_msg_id {
                    self.waiting.retain(|(waiting, _)| waiting != id);
                }
                self.messages.insert(message.seq, message);
            }
            Event::Delivered { up_to } => self.peer_delivered = up_to,
            Event::Read { up_to } => self.peer_read = up_to,
            Event::Elsewhere { sender_id, body, count } => {
                let more = if count > 1 { format!(" ({count} new)") } else { String::new() };
                self.notice(format!("{sender_id}: {body}{more}").dim());
            }
            Event::Failed { client_msg_id, body, why } => {
                self.waiting.retain(|(waiting, _)| *waiting != client_msg_id);
                self.notice(format!("not sent: {body}: {why}").red());
            }
            Event::Notice(text) => self.notice(text.red()),
            Event::UpToDate => {
                self.connection = Connection::Connected;
                self.missing = false;
            }
        }
    }

    fn notice(&mut self, notice: StyledContent<String>) {
        let after = self.messages.last_key_value().map_or(0, |(seq, _)| *seq);
        self.notices.entry(after).or_default().push(notice);
    }

    /// True while the status changes by itself, with the time.
    pub(crate) fn is_counting_down(&self) -> bool {
        matches!(self.connection, Connection::Offline { .. })
    }

    pub(crate) fn status(&self, now: Instant) -> String {
        let state = match &self.connection {
            Connection::Connecting => "connecting …".to_owned(),
            Connection::CatchingUp => "connected, catching up …".to_owned(),
            Connection::Connected => "connected".to_owned(),
            Connection::Offline { retry_at, .. } => {
                let left = retry_at.saturating_duration_since(now);
                match left.as_millis().div_ceil(1000) {
                    0 => "reconnecting …".to_owned(),
                    seconds => format!("reconnecting in {seconds} s …"),
                }
            }
        };
        sanitise(&format!(" {} → {} · {state}", name(&self.me), name(&self.peer)))
    }

    /// All of it, oldest first, in rows of at most `width` columns.
    pub(crate) fn rows(&self, width: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        self.push_notices(0, width, &mut rows);
        for (seq, message) in &self.messages {
            if self.missed_from.contains(seq) {
                rows.push(vec![truncate("── while you were away ──", width).yellow()]);
            }
            self.push_message(message, width, &mut rows);
            self.push_notices(*seq, width, &mut rows);
        }
        for (_, body) in &self.waiting {
            let prefix = vec!["      ".to_owned().stylize(), "you: ".to_owned().green().bold()];
            push_wrapped(prefix, body, Some("…".to_owned().dim()), width, &mut rows);
        }
        if let Connection::Offline { why, .. } = &self.connection {
            rows.extend(wrap(why, width).into_iter().map(|row| vec![row.yellow()]));
        }
        rows
    }

    fn push_message(&self, message: &Message, width: usize, rows: &mut Vec<Row>) {
        let mine = message.sender_id == self.me;
        let time = format!("{} ", self.time_of_day(&message.sent_at)).dim();
        let tick = mine.then(|| self.tick(message.seq));
        let name = if mine {
            "you: ".to_owned().green().bold()
        } else {
            sanitise(&format!("{}: ", name(&message.sender_id))).cyan().bold()
        };
        push_wrapped(vec![time, name], &message.body, tick, width, rows);
    }

    fn push_notices(&self, after: u64, width: usize, rows: &mut Vec<Row>) {
        for notice in self.notices.get(&after).into_iter().flatten() {
            let line = truncate(&sanitise(notice.content()), width.saturating_sub(6));
            rows.push(vec!["      ".to_owned().stylize(), StyledContent::new(*notice.style(), line)]);
        }
    }

    fn tick(&self, seq: u64) -> StyledContent<String> {
        if seq <= self.peer_read {
            "✓✓".to_owned().blue().bold()
        } else if seq <= self.peer_delivered {
            "✓✓".to_owned().dim()
        } else {
            "✓".to_owned().dim()
        }
    }

    fn time_of_day(&self, sent_at: &str) -> String {
        OffsetDateTime::parse(sent_at, &Rfc3339).map_or_else(
            |_| "--:--".to_owned(),
            |at| {
                let at = at.to_offset(self.offset);
                format!("{:02}:{:02}", at.hour(), at.minute())
            },
        )
    }
}

fn name(id: &str) -> String {
    truncate(id, NAME_COLUMNS_MAX)
}

/// The prefix, the body beside it, wrapped, and the tick after its last word.
fn push_wrapped(prefix: Row, body: &str, tick: Option<StyledContent<String>>, width: usize, rows: &mut Vec<Row>) {
    let indent: usize = prefix.iter().map(|part| part.content().width()).sum();
    let mut row = prefix;
    // Beside a prefix of half the screen no body reads well: it goes below.
    let indent = if indent > width / 2 {
        rows.push(std::mem::take(&mut row));
        2
    } else {
        indent
    };
    let room = width.saturating_sub(indent).max(2);
    let blank = || " ".repeat(indent).stylize();
    if row.is_empty() {
        row.push(blank());
    }
    let mut used = 0;
    for (number, text) in wrap(body, room).into_iter().enumerate() {
        if number > 0 {
            rows.push(std::mem::replace(&mut row, vec![blank()]));
        }
        used = text.width();
        row.push(text.stylize());
    }
    if let Some(tick) = tick {
        if used + 1 + tick.content().width() > room {
            rows.push(std::mem::replace(&mut row, vec![blank()]));
        } else {
            row.push(" ".to_owned().stylize());
        }
        row.push(tick);
    }
    rows.push(row);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn transcript() -> Transcript {
        Transcript::new("alice", "bob", UtcOffset::UTC)
    }

    fn message(seq: u64, sender: &str, body: &str, client_msg_id: Option<&str>) -> Message {
        Message {
            conversation_id: "dm_x".into(),
            seq,
            message_id: "x".into(),
            sender_id: sender.into(),
            kind: "text".into(),
            body: body.into(),
            sent_at: "2026-11-20T10:02:00.123Z".into(),
            client_msg_id: client_msg_id.map(Into::into),
        }
    }

    fn show(transcript: &mut Transcript, event: Event) {
        transcript.apply(News::Event(event));
    }

    fn text(transcript: &Transcript, width: usize) -> Vec<String> {
        transcript.rows(width).iter().map(|row| row.iter().map(|part| part.content().as_str()).collect()).collect()
    }

    #[test]
    fn an_own_message_goes_from_waiting_to_read() {
        let mut screen = transcript();
        show(&mut screen, Event::Waiting { client_msg_id: "1".into(), body: "hi".into() });
        assert_eq!(text(&screen, 40), ["      you: hi …"]);
        show(&mut screen, Event::Message { message: message(1, "alice", "hi", Some("1")), missed: false });
        assert_eq!(text(&screen, 40), ["10:02 you: hi ✓"]);
        show(&mut screen, Event::Delivered { up_to: 1 });
        assert_eq!(text(&screen, 40), ["10:02 you: hi ✓✓"]);
        let delivered = *screen.rows(40)[0].last().unwrap().style();
        show(&mut screen, Event::Read { up_to: 1 });
        assert_eq!(text(&screen, 40), ["10:02 you: hi ✓✓"]);
        assert_ne!(*screen.rows(40)[0].last().unwrap().style(), delivered);
    }

    #[test]
    fn missed_messages_stand_under_a_line_and_others_as_notices() {
        let mut screen = transcript();
        show(&mut screen, Event::Message { message: message(1, "bob", "old", None), missed: false });
        show(&mut screen, Event::Message { message: message(2, "bob", "new", None), missed: true });
        show(&mut screen, Event::Message { message: message(3, "bob", "newer", None), missed: true });
        show(&mut screen, Event::Elsewhere { sender_id: "carol".into(), body: "psst\x1b[2J".into(), count: 1 });
        assert_eq!(
            text(&screen, 40),
            [
                "10:02 bob: old",
                "── while you were away ──",
                "10:02 bob: new",
                "10:02 bob: newer",
                "      carol: psst␛[2J",
            ]
        );
    }

    #[test]
    fn long_messages_wrap_beside_the_name_and_no_row_is_too_wide() {
        let mut screen = transcript();
        let body = "a rather long message";
        show(&mut screen, Event::Message { message: message(1, "alice", body, None), missed: false });
        assert_eq!(text(&screen, 23), ["10:02 you: a rather", "           long message", "           ✓"]);
        for width in 6..60 {
            assert!(text(&screen, width).iter().all(|row| row.width() <= width.max(12)), "{width}");
        }
    }

    #[test]
    fn the_status_counts_down() {
        let mut screen = transcript();
        let now = Instant::now();
        screen.apply(News::Offline { why: "no server".into(), retry_at: now + Duration::from_millis(2500) });
        assert_eq!(screen.status(now), " alice → bob · reconnecting in 3 s …");
        assert_eq!(text(&screen, 40), ["no server"]);
        screen.apply(News::Connecting);
        assert_eq!(screen.status(now + Duration::from_secs(3)), " alice → bob · reconnecting …");
        screen.apply(News::Online);
        show(&mut screen, Event::UpToDate);
        assert_eq!(screen.status(now), " alice → bob · connected");
        assert!(screen.rows(40).is_empty());
    }
}
