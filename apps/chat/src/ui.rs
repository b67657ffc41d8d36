//! The chat on a whole terminal: the end of the conversation, a status line, an input line.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use crossterm::cursor::{MoveTo, Show};
use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event as Input, EventStream, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers,
};
use crossterm::style::{PrintStyledContent, Stylize};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use futures_util::{FutureExt, StreamExt};
use tokio::signal::unix::{SignalKind, signal};
use unicode_width::UnicodeWidthStr;

use crate::command::{self, Command};
use crate::connection::Talk;
use crate::editor::Editor;
use crate::room::{News, Room};
use crate::text::truncate;
use crate::transcript::Transcript;

pub(crate) async fn run(transcript: Transcript, talk: &mut Talk) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let _terminal = Terminal::take()?;
    let mut inputs = EventStream::new();
    // Twice a second, so that a countdown by seconds skips none.
    let mut clock = tokio::time::interval(Duration::from_millis(500));
    let mut screen = Screen::new(transcript);
    loop {
        screen.draw(&talk.room, size()?)?;
        tokio::select! {
            news = talk.news() => {
                screen.apply(news?);
                // What is there already is drawn at once.
                while let Some(news) = talk.news().now_or_never() {
                    screen.apply(news?);
                }
            }
            input = inputs.next() => {
                let Some(input) = input else { return Ok(()) };
                match screen.input(input?) {
                    KeyAction::None => {}
                    // What is not sent is here alone.
                    KeyAction::Leave if talk.room.unanswered() > 0 && !screen.is_asked => {
                        screen.is_asked = true;
                        screen.apply(talk.room.ask_to_stay());
                    }
                    KeyAction::Leave => return Ok(()),
                    KeyAction::Typing => talk.typing(),
                    KeyAction::Say(body) => match Command::parse(&body) {
                        Some(command) => screen.apply(talk.command(&body, command).await),
                        None => screen.apply(talk.say(command::message(body)).await),
                    },
                    KeyAction::Wake => talk.wake(),
                    KeyAction::LookBack => talk.look_back(),
                }
            }
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => return Ok(()),
            _ = clock.tick(), if screen.transcript.is_counting_down() => {}
        }
    }
}

/// The terminal in raw mode and on its other screen; as it was before, once this is dropped.
struct Terminal;

impl Terminal {
    fn take() -> io::Result<Self> {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // A report is only readable on the screen that stays.
            restore();
            report(panic);
        }));
        enable_raw_mode()?;
        let taken = Self;
        execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        Ok(taken)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Nothing can be done for a terminal that has gone away.
    let _ = execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

enum KeyAction {
    None,
    Say(String),
    /// The user is writing a message.
    Typing,
    Wake,
    /// To what is older than all that is here.
    LookBack,
    Leave,
}

struct Screen {
    transcript: Transcript,
    editor: Editor,
    /// Rows below the visible ones, and how many there can be.
    scrolled: usize,
    scrolled_max: usize,
    /// Whether to leave what is not sent: the last key was to leave.
    is_asked: bool,
}

impl Screen {
    fn new(transcript: Transcript) -> Self {
        Self { transcript, editor: Editor::default(), scrolled: 0, scrolled_max: 0, is_asked: false }
    }

    fn apply(&mut self, news: Vec<News>) {
        for news in news {
            self.transcript.apply(news);
        }
    }

    fn input(&mut self, input: Input) -> KeyAction {
        match input {
            Input::Key(key) if key.kind != KeyEventKind::Release => {
                let action = self.key(key);
                self.is_asked &= matches!(action, KeyAction::Leave);
                action
            }
            Input::Paste(text) => {
                self.is_asked = false;
                self.editor.insert(&text.replace("\r\n", "\n").replace('\r', "\n"));
                KeyAction::None
            }
            _ => KeyAction::None,
        }
    }

    fn key(&mut self, key: KeyEvent) -> KeyAction {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return KeyAction::Leave,
            KeyCode::Char('c' | 'd') if control => return KeyAction::Leave,
            KeyCode::Char('u') if control => self.editor.clear_before(),
            KeyCode::Char('w') if control => self.editor.delete_word(),
            KeyCode::Char('a') if control => self.editor.home(),
            KeyCode::Char('e') if control => self.editor.end(),
            KeyCode::Char(c) if !control => {
                self.editor.insert(c.encode_utf8(&mut [0; 4]));
                return if self.editor.is_command() { KeyAction::None } else { KeyAction::Typing };
            }
            KeyCode::Backspace => self.editor.backspace(),
            KeyCode::Delete => self.editor.delete(),
            KeyCode::Left => self.editor.left(),
            KeyCode::Right => self.editor.right(),
            KeyCode::Home => self.editor.home(),
            KeyCode::End => self.editor.end(),
            KeyCode::PageUp => {
                self.scrolled += 10;
                return if self.scrolled > self.scrolled_max { KeyAction::LookBack } else { KeyAction::None };
            }
            KeyCode::PageDown => self.scrolled = self.scrolled.saturating_sub(10),
            KeyCode::Enter => {
                self.scrolled = 0;
                let body = self.editor.take();
                return if body.trim().is_empty() { KeyAction::Wake } else { KeyAction::Say(body) };
            }
            _ => {}
        }
        KeyAction::None
    }

    fn draw(&mut self, room: &Room, (columns, lines): (u16, u16)) -> io::Result<()> {
        let (timeline, prompt) = (room.timeline(), room.prompt());
        let width = usize::from(columns);
        let height = lines.saturating_sub(2);
        let rows = self.transcript.rows(timeline, width);
        self.scrolled_max = rows.len().saturating_sub(usize::from(height));
        self.scrolled = self.scrolled.min(self.scrolled_max);
        let end = rows.len() - self.scrolled;
        let visible = rows.get(end.saturating_sub(usize::from(height))..end).unwrap_or_default();

        // A short conversation stands at the bottom, beside the line where it goes on.
        let blank = usize::from(height) - visible.len();

        let mut out = Vec::new();
        queue!(out, BeginSynchronizedUpdate)?;
        for line in 0..height {
            queue!(out, MoveTo(0, line), Clear(ClearType::CurrentLine))?;
            let row = usize::from(line).checked_sub(blank).and_then(|line| visible.get(line));
            for part in row.into_iter().flatten() {
                queue!(out, PrintStyledContent(part.clone()))?;
            }
        }
        let mut status = truncate(&self.transcript.status(timeline, Instant::now()), width);
        status.push_str(&" ".repeat(width.saturating_sub(status.width())));
        queue!(out, MoveTo(0, height), PrintStyledContent(status.reverse()))?;

        let (typed, cursor) = self.editor.visible(width.saturating_sub(prompt.len() + 1));
        let cursor = u16::try_from(prompt.len() + cursor).unwrap_or(u16::MAX);
        let input_line = lines.saturating_sub(1);
        queue!(out, MoveTo(0, input_line), Clear(ClearType::CurrentLine))?;
        queue!(out, PrintStyledContent(format!("{prompt}{typed}").stylize()), MoveTo(cursor, input_line), Show)?;
        queue!(out, EndSynchronizedUpdate)?;
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()
    }
}

#[cfg(test)]
mod tests {
    use time::UtcOffset;

    use super::*;
    use crate::room::tests::user;

    fn screen() -> Screen {
        Screen::new(Transcript::new(user("alice"), "bob".to_owned(), UtcOffset::UTC))
    }

    fn press(screen: &mut Screen, code: KeyCode) -> KeyAction {
        screen.input(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    #[test]
    fn whoever_goes_on_is_asked_once_more_before_leaving() {
        let mut screen = screen();
        screen.is_asked = true;
        assert!(matches!(press(&mut screen, KeyCode::Esc), KeyAction::Leave));
        assert!(screen.is_asked);
        press(&mut screen, KeyCode::Char('x'));
        assert!(!screen.is_asked);
    }

    #[test]
    fn page_up_asks_for_more_only_at_the_top() {
        let mut screen = screen();
        screen.scrolled_max = 10;
        assert!(matches!(press(&mut screen, KeyCode::PageUp), KeyAction::None));
        assert!(matches!(press(&mut screen, KeyCode::PageUp), KeyAction::LookBack));
    }
}
