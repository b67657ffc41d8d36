//! What the screen shows, as rows of styled text. Knows no terminal, only how wide one is.

use std::collections::BTreeMap;
use std::time::Instant;

use crossterm::style::{StyledContent, Stylize};
use pigeonhole_client::{Message, Reaction, Seq, Tick, Timeline, TimelineEntry, Timestamp, Unsent, UserId};
use time::{Date, OffsetDateTime, UtcOffset};
use unicode_width::UnicodeWidthStr;

use crate::group::happened;
use crate::media::{carried, carries, with_caption};
use crate::room::News;
use crate::text::{sanitise, truncate, wrap};

/// User ids may be 128 characters long; a name on the screen may not.
const NAME_COLUMNS_MAX: usize = 24;

pub(crate) type Row = Vec<StyledContent<String>>;

pub(crate) struct Transcript {
    me: UserId,
    /// With whom the conversation is.
    with: String,
    offset: UtcOffset,
    /// Lines about other things, each after the message that was the last one then.
    notices: BTreeMap<Seq, Vec<StyledContent<String>>>,
    last_seq: Seq,
    connection: ConnectionState,
    /// What is set, in words.
    settings: String,
    /// As the status line said last.
    somebody_writes: bool,
}

enum ConnectionState {
    Connecting,
    CatchingUp,
    Connected,
    Offline {
        why: String,
        retry_at: Instant,
    },
    /// It waits for the user.
    Replaced,
}

impl Transcript {
    pub(crate) fn new(me: UserId, with: String, offset: UtcOffset) -> Self {
        let connection = ConnectionState::Connecting;
        let (notices, settings) = (BTreeMap::new(), String::new());
        Self { me, with, offset, notices, last_seq: Seq::ZERO, connection, settings, somebody_writes: false }
    }

    /// What the timeline does not show.
    pub(crate) fn apply(&mut self, news: News) {
        match news {
            News::Connecting => {
                // The reason stays in sight while the next try runs.
                if !matches!(self.connection, ConnectionState::Offline { .. }) {
                    self.connection = ConnectionState::Connecting;
                }
            }
            News::Online => self.connection = ConnectionState::CatchingUp,
            News::Offline { why, retry_at } => self.connection = ConnectionState::Offline { why, retry_at },
            News::UpToDate => self.connection = ConnectionState::Connected,
            News::Replaced => self.connection = ConnectionState::Replaced,
            News::Opened(with) => {
                (self.with, self.settings, self.last_seq) = (with, String::new(), Seq::ZERO);
                self.notices.clear();
            }
            News::Named(title) => self.with = title,
            News::Settings(settings) => self.settings = settings,
            News::Message { message, .. } if message.kind.counts() || message.system.is_some() => {
                self.last_seq = message.seq;
            }
            News::Elsewhere { title, sender_id, body, count } => {
                let place = title.map(|title| format!("{title} · ")).unwrap_or_default();
                let more = if count > 1 { format!(" ({count} new)") } else { String::new() };
                self.notice(format!("{place}{sender_id}: {body}{more}").dim());
            }
            News::Failed { what, why, in_timeline: false } => self.notice(format!("{what}: {why}").red()),
            News::Notice(text) => self.notice(text.red()),
            News::Told(text) => self.notice(text.dim()),
            News::Message { .. } | News::Failed { .. } | News::Delivered { .. } | News::Read { .. } => {}
        }
    }

    fn notice(&mut self, notice: StyledContent<String>) {
        self.notices.entry(self.last_seq).or_default().push(notice);
    }

    /// True while the status changes by itself, with the time.
    pub(crate) fn is_counting_down(&self) -> bool {
        self.somebody_writes || matches!(self.connection, ConnectionState::Offline { .. })
    }

    pub(crate) fn status(&mut self, timeline: &Timeline, now: Instant) -> String {
        let writing = timeline.writing(now);
        self.somebody_writes = !writing.is_empty();
        let writing = match writing.as_slice() {
            [] => String::new(),
            // Of two, there is nobody else.
            [user] if **user == *self.with => "is writing …".to_owned(),
            [user] => format!("{} is writing …", name(user.as_str())),
            [one, other] => format!("{} and {} are writing …", name(one.as_str()), name(other.as_str())),
            several => format!("{} are writing …", several.len()),
        };
        let state = match &self.connection {
            ConnectionState::Connecting => "connecting …".to_owned(),
            ConnectionState::CatchingUp => "connected, catching up …".to_owned(),
            ConnectionState::Connected if self.somebody_writes => writing,
            ConnectionState::Connected if timeline.is_closed() => "you are no longer in this group".to_owned(),
            ConnectionState::Connected => "connected".to_owned(),
            ConnectionState::Replaced => "open in too many places: Enter connects here".to_owned(),
            ConnectionState::Offline { retry_at, .. } => {
                let left = retry_at.saturating_duration_since(now);
                match left.as_millis().div_ceil(1000) {
                    0 => "reconnecting …".to_owned(),
                    seconds => format!("reconnecting in {seconds} s …"),
                }
            }
        };
        let set = if self.settings.is_empty() { String::new() } else { format!(" · {}", self.settings) };
        sanitise(&format!(" {} → {} · {state}{set}", name(self.me.as_str()), name(&self.with)))
    }

    /// All of it, oldest first, in rows of at most `width` columns.
    pub(crate) fn rows(&self, timeline: &Timeline, width: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        self.push_notices(Seq::ZERO, width, &mut rows);
        for entry in timeline.entries(|at| self.local(at).date()) {
            match entry {
                TimelineEntry::Day(day) => rows.push(vec![rule(&day_text(day), width).dim()]),
                TimelineEntry::Unread(count) => rows.push(vec![rule(&format!("{count} new"), width).yellow()]),
                TimelineEntry::System { message, system } => {
                    if let Some(text) = happened(system, &message.conversation_id, &message.sender_id, &self.me) {
                        let line = truncate(&sanitise(&text), width.saturating_sub(6));
                        rows.push(vec![self.time(message.sent_at), line.dim()]);
                    }
                    self.push_notices(message.seq, width, &mut rows);
                }
                TimelineEntry::Gap { .. } => rows.push(vec![rule("…", width).dim()]),
                TimelineEntry::Message { message, tick, quote, changing, refused, .. } => {
                    push_quote(message.reply_to, quote.as_deref(), width, &mut rows);
                    self.push_message(&message, tick, changing, width, &mut rows);
                    push_error(refused, width, &mut rows);
                    self.push_notices(message.seq, width, &mut rows);
                }
                TimelineEntry::Unsent { unsent, body, tick, quote } => {
                    push_quote(quote.as_deref().map(|quote| quote.seq), quote.as_deref(), width, &mut rows);
                    let upload = unsent.queued.outgoing.upload();
                    let said = with_caption(upload.map(carries), body);
                    let mut after = vec![tick_text(tick)];
                    if let (Some(done), Some(upload), Tick::Waiting) = (unsent.uploaded, upload, tick) {
                        after.push(format!("{} %", done * 100 / upload.bytes.max(1)).dim());
                    }
                    push_wrapped(vec![blank(), you()], said.as_str().stylize(), after, width, &mut rows);
                    push_error(Some(unsent), width, &mut rows);
                }
            }
        }
        if let ConnectionState::Offline { why, .. } = &self.connection {
            rows.extend(wrap(why, width).into_iter().map(|row| vec![row.yellow()]));
        }
        rows
    }

    fn push_message(&self, message: &Message, tick: Option<Tick>, changing: bool, width: usize, rows: &mut Vec<Row>) {
        let time = self.time(message.sent_at);
        let name = match tick {
            Some(_) => you(),
            None => sanitise(&format!("{}: ", name(message.sender_id.as_str()))).cyan().bold(),
        };
        let is_deleted = message.deleted_at.is_some();
        let said = with_caption(carried(message), &message.body);
        let body = if is_deleted { "(deleted)".dim() } else { said.as_str().stylize() };
        let mut after = Vec::new();
        if message.version.is_some() {
            after.push("(edited)".to_owned().dim());
        }
        for Reaction { emoji, count, mine } in &message.reactions {
            let text = sanitise(emoji.as_str());
            let text = if *count > 1 { format!("{text} {count}") } else { text };
            after.push(if *mine { text.green() } else { text.stylize() });
        }
        after.extend(if changing { Some(tick_text(Tick::Waiting)) } else { tick.map(tick_text) });
        after.push(format!("#{}", message.seq).dim());
        push_wrapped(vec![time, name], body, after, width, rows);
    }

    fn time(&self, at: Timestamp) -> StyledContent<String> {
        let at = self.local(at);
        format!("{:02}:{:02} ", at.hour(), at.minute()).dim()
    }

    fn push_notices(&self, after: Seq, width: usize, rows: &mut Vec<Row>) {
        for notice in self.notices.get(&after).into_iter().flatten() {
            let text = sanitise(notice.content());
            push_wrapped(
                vec!["      ".to_owned().stylize()],
                StyledContent::new(*notice.style(), &text),
                vec![],
                width,
                rows,
            );
        }
    }

    fn local(&self, at: Timestamp) -> OffsetDateTime {
        let nanos = i128::from(at.millis()) * 1_000_000;
        OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH).to_offset(self.offset)
    }
}

fn rule(text: &str, width: usize) -> String {
    truncate(&format!("── {text} ──"), width)
}

fn day_text(day: Date) -> String {
    format!("{} {} {} {}", day.weekday(), day.day(), day.month(), day.year())
}

fn you() -> StyledContent<String> {
    "you: ".to_owned().green().bold()
}

fn tick_text(tick: Tick) -> StyledContent<String> {
    match tick {
        Tick::Failed => "not sent".to_owned().red(),
        Tick::Waiting => "…".to_owned().dim(),
        Tick::Stored => "✓".to_owned().dim(),
        Tick::Delivered => "✓✓".to_owned().dim(),
        Tick::Read => "✓✓".to_owned().blue().bold(),
    }
}

fn blank() -> StyledContent<String> {
    "      ".to_owned().stylize()
}

/// Why a message or a change was refused.
fn push_error(unsent: Option<&Unsent>, width: usize, rows: &mut Vec<Row>) {
    if let Some(why) = unsent.and_then(|unsent| unsent.error.as_ref()) {
        rows.push(vec![blank(), truncate(&sanitise(why), width.saturating_sub(6)).red()]);
    }
}

/// What a message answers, in one row.
fn push_quote(reply_to: Option<Seq>, quote: Option<&Message>, width: usize, rows: &mut Vec<Row>) {
    let Some(seq) = reply_to else { return };
    let text = match quote {
        Some(Message { deleted_at: Some(_), .. }) => format!("#{seq} (deleted)"),
        Some(quote) => {
            format!("{}: {}", name(quote.sender_id.as_str()), with_caption(carried(quote), &quote.body))
        }
        None => format!("#{seq}"),
    };
    rows.push(vec![blank(), truncate(&format!("┃ {}", sanitise(&text)), width.saturating_sub(6)).dim()]);
}

fn name(id: &str) -> String {
    truncate(id, NAME_COLUMNS_MAX)
}

/// The prefix, the body beside it, wrapped, and the rest after its last word.
fn push_wrapped(
    prefix: Row,
    body: StyledContent<&str>,
    after: Vec<StyledContent<String>>,
    width: usize,
    rows: &mut Vec<Row>,
) {
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
    for (number, text) in wrap(body.content(), room).into_iter().enumerate() {
        if number > 0 {
            rows.push(std::mem::replace(&mut row, vec![blank()]));
        }
        used = text.width();
        row.push(StyledContent::new(*body.style(), text));
    }
    for part in after {
        let columns = part.content().width();
        if used > 0 && used + 1 + columns > room {
            rows.push(std::mem::replace(&mut row, vec![blank()]));
            used = columns;
        } else {
            row.push(" ".to_owned().stylize());
            used += 1 + columns;
        }
        row.push(part);
    }
    rows.push(row);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pigeonhole_client::{ClientMsgId, Emoji, Kind, Outgoing, Queued, ReceiptKind};

    use super::*;
    use crate::room::tests::{message, queued, user};

    fn transcript() -> Transcript {
        Transcript::new(user("alice"), "bob".to_owned(), UtcOffset::UTC)
    }

    fn timeline(bodies: &[(&str, &str)]) -> Timeline {
        let mut timeline = Timeline::new(user("alice"));
        for (seq, (sender, body)) in (1..).zip(bodies) {
            let mut message = message("dm_ab", seq, sender);
            (*body).clone_into(&mut message.body);
            timeline.message(message);
        }
        timeline
    }

    fn text(transcript: &Transcript, timeline: &Timeline, width: usize) -> Vec<String> {
        let rows = transcript.rows(timeline, width);
        rows.iter().map(|row| row.iter().map(|part| part.content().as_str()).collect()).collect()
    }

    const DAY: &str = "── Friday 20 November 2026 ──";

    #[test]
    fn an_own_message_goes_from_waiting_to_read() {
        let screen = transcript();
        let mut timeline = timeline(&[]);
        let mut own = message("dm_ab", 1, "alice");
        own.client_msg_id = Some(ClientMsgId::parse("a").unwrap());
        timeline.queued(queued(&ClientMsgId::parse("a").unwrap()), own.sent_at);
        assert_eq!(text(&screen, &timeline, 40), [DAY, "      you: hi …"]);
        timeline.message(own);
        assert_eq!(text(&screen, &timeline, 40), [DAY, "10:00 you: alice 1 ✓ #1"]);
        timeline.receipt(ReceiptKind::Delivered, &user("bob"), Seq::new(1).unwrap());
        assert_eq!(text(&screen, &timeline, 40), [DAY, "10:00 you: alice 1 ✓✓ #1"]);
        let delivered = *screen.rows(&timeline, 40)[1].iter().rev().nth(2).unwrap().style();
        timeline.receipt(ReceiptKind::Read, &user("bob"), Seq::new(1).unwrap());
        assert_eq!(text(&screen, &timeline, 40), [DAY, "10:00 you: alice 1 ✓✓ #1"]);
        assert_ne!(*screen.rows(&timeline, 40)[1].iter().rev().nth(2).unwrap().style(), delivered);
    }

    #[test]
    fn a_message_that_can_never_be_sent_says_why() {
        let mut timeline = timeline(&[]);
        let id = ClientMsgId::parse("a").unwrap();
        timeline.queued(queued(&id), Timestamp::parse("2026-11-20T10:02:00.123Z").unwrap());
        timeline.failed(&id, "no such user");
        assert_eq!(text(&transcript(), &timeline, 40), [DAY, "      you: hi not sent", "      no such user"]);
    }

    #[test]
    fn unread_messages_stand_under_a_line_and_others_as_notices() {
        let mut screen = transcript();
        let mut timeline = timeline(&[("bob", "old"), ("bob", "new"), ("bob", "newer")]);
        timeline.receipt(ReceiptKind::Read, &user("alice"), Seq::new(1).unwrap());
        timeline.open();
        screen.apply(News::Message { message: message("dm_ab", 3, "bob"), missed: false });
        screen.apply(News::Elsewhere { title: None, sender_id: user("carol"), body: "psst\x1b[2J".into(), count: 1 });
        assert_eq!(
            text(&screen, &timeline, 40),
            [
                DAY,
                "10:00 bob: old #1",
                "── 2 new ──",
                "10:00 bob: new #2",
                "10:00 bob: newer #3",
                "      carol: psst␛[2J",
            ]
        );
    }

    #[test]
    fn long_messages_wrap_beside_the_name_and_no_row_is_too_wide() {
        let screen = transcript();
        let timeline = timeline(&[("alice", "a rather long message")]);
        assert_eq!(
            text(&screen, &timeline, 23)[1..],
            ["10:00 you: a rather", "           long message", "           ✓ #1"]
        );
        for width in 6..60 {
            assert!(text(&screen, &timeline, width).iter().all(|row| row.width() <= width.max(12)), "{width}");
        }
    }

    fn changed(seq: u64, sender: &str, kind: Kind, emoji: Option<&str>) -> Message {
        let mut entry = message("dm_ab", seq, sender);
        (entry.kind, entry.target_seq) = (kind, Seq::new(1));
        if entry.kind == Kind::Edit {
            entry.version = Some(2);
        }
        entry.emoji = emoji.and_then(|emoji| Emoji::parse(emoji).ok());
        entry
    }

    #[test]
    fn a_message_shows_what_became_of_it_and_a_reply_what_it_answers() {
        let screen = transcript();
        let mut timeline = timeline(&[("bob", "one")]);
        let mut reply = message("dm_ab", 2, "alice");
        reply.reply_to = Seq::new(1);
        timeline.message(reply);
        let quoted = |quote: &str| format!("      ┃ {quote}");
        let answer = "10:00 you: alice 2 ✓ #2".to_owned();
        let shown = |first: &str, quote: &str| vec![DAY.to_owned(), first.to_owned(), quoted(quote), answer.clone()];
        assert_eq!(text(&screen, &timeline, 40), shown("10:00 bob: one #1", "bob: one"));
        timeline.message(changed(3, "bob", Kind::Reaction, Some("👍")));
        timeline.message(changed(4, "alice", Kind::Reaction, Some("👍")));
        assert_eq!(text(&screen, &timeline, 40), shown("10:00 bob: one 👍 2 #1", "bob: one"));
        timeline.message(changed(5, "alice", Kind::Reaction, Some("\u{202e}x")));
        timeline.message(changed(6, "bob", Kind::Edit, None));
        assert_eq!(text(&screen, &timeline, 40), shown("10:00 bob: bob 6 (edited) \u{fffd}x 👍 #1", "bob: bob 6"));
        timeline.message(changed(7, "bob", Kind::Delete, None));
        assert_eq!(text(&screen, &timeline, 40), shown("10:00 bob: (deleted) #1", "#1 (deleted)"));
        let mut late = message("dm_ab", 8, "bob");
        late.reply_to = Seq::new(7);
        timeline.message(late);
        assert_eq!(text(&screen, &timeline, 40)[4..], [quoted("#7"), "10:00 bob: bob 8 #8".to_owned()]);
    }

    #[test]
    fn a_change_that_waits_is_shown_and_one_that_was_refused_says_why() {
        let screen = transcript();
        let mut timeline = timeline(&[("alice", "one")]);
        let id = ClientMsgId::parse("a").unwrap();
        let conversation_id = message("dm_ab", 1, "alice").conversation_id;
        let outgoing = Outgoing::Edit { conversation_id, seq: Seq::new(1).unwrap(), body: "two".to_owned() };
        timeline.queued(Queued { client_msg_id: id.clone(), outgoing }, Timestamp::from_millis(0));
        assert_eq!(text(&screen, &timeline, 40), [DAY, "10:00 you: two (edited) … #1"]);
        timeline.failed(&id, "no room");
        assert_eq!(text(&screen, &timeline, 40), [DAY, "10:00 you: one ✓ #1", "      no room"]);
    }

    #[test]
    fn the_status_says_that_the_peer_writes_until_they_stop() {
        let (mut screen, mut timeline, now) = (transcript(), timeline(&[]), Instant::now());
        screen.apply(News::UpToDate);
        timeline.typing(&user("bob"), now);
        assert_eq!(screen.status(&timeline, now), " alice → bob · is writing …");
        assert!(screen.is_counting_down());
        assert_eq!(screen.status(&timeline, now + Duration::from_secs(6)), " alice → bob · connected");
        assert!(!screen.is_counting_down());
    }

    #[test]
    fn of_a_group_what_happened_stands_between_and_several_write() {
        let mut screen = transcript();
        screen.apply(News::UpToDate);
        screen.apply(News::Opened("gr_ab".to_owned()));
        screen.apply(News::Named("Trip".to_owned()));
        let (mut timeline, now) = (Timeline::new(user("alice")), Instant::now());
        let system = |seq, sender: &str, system: &str| {
            let mut entry = message("gr_ab", seq, sender);
            (entry.kind, entry.system) = (Kind::System, serde_json::from_str(system).ok());
            entry
        };
        timeline.message(system(1, "bob", r#"{"event":"created","title":"Trip\u001b","members":["bob","alice"]}"#));
        timeline.message(message("gr_ab", 2, "bob"));
        assert_eq!(
            text(&screen, &timeline, 60),
            [DAY, "10:00 bob made the group “Trip␛” with you", "10:00 bob: bob 2 #2"]
        );
        timeline.typing(&user("carol"), now);
        assert_eq!(screen.status(&timeline, now), " alice → Trip · carol is writing …");
        timeline.typing(&user("bob"), now);
        assert_eq!(screen.status(&timeline, now), " alice → Trip · bob and carol are writing …");
        timeline.message(system(3, "bob", r#"{"event":"members.removed","members":["alice"]}"#));
        let later = now + Duration::from_secs(9);
        assert_eq!(screen.status(&timeline, later), " alice → Trip · you are no longer in this group");
    }

    #[test]
    fn the_status_counts_down() {
        let mut screen = transcript();
        let empty = timeline(&[]);
        let now = Instant::now();
        screen.apply(News::Offline { why: "no server".into(), retry_at: now + Duration::from_millis(2500) });
        assert_eq!(screen.status(&empty, now), " alice → bob · reconnecting in 3 s …");
        assert_eq!(text(&screen, &empty, 40), ["no server"]);
        screen.apply(News::Connecting);
        assert_eq!(screen.status(&empty, now + Duration::from_secs(3)), " alice → bob · reconnecting …");
        screen.apply(News::Online);
        screen.apply(News::UpToDate);
        assert_eq!(screen.status(&empty, now), " alice → bob · connected");
        screen.apply(News::Settings("muted".to_owned()));
        assert_eq!(screen.status(&empty, now), " alice → bob · connected · muted");
        screen.apply(News::Settings(String::new()));
        screen.apply(News::Replaced);
        assert_eq!(screen.status(&empty, now), " alice → bob · open in too many places: Enter connects here");
        assert!(screen.rows(&empty, 40).is_empty());
    }
}
