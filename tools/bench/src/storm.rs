//! A million phones that lose their connections at once, and how they come back: a simulation, the same at each run.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;
use pigeonhole_client::Timing;

use crate::money::with_commas;
use crate::{plot, report};

const PHONES: usize = 1_000_000;
/// Each that is simulated stands for so many: as many fewer at as much less of a quota come back in the same way.
const EACH: usize = 10;
/// New connections per second that API Gateway takes of an account in a Region, by default, and when it was asked for more. Further
/// ones are answered with 429.
const QUOTA: usize = 500;
const RAISED_QUOTA: usize = 2_000;
/// So long nobody is answered at all.
const BREAK: Duration = Duration::from_mins(10);
const BREAK_S: usize = 600;
/// So long is looked at, from the beginning of the break.
const SHOWN_S: usize = 4 * 3600;
/// Tokens are counted until here. By then all are back.
const HOUR_S: usize = 3600;
/// From here on, what goes on is only what comes of it.
const LATER_S: usize = 90 * 60;
const SEED: u64 = 1;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Both as in `clients/rust/src/session/links.rs`, which shows them to nobody.
const TOKEN_MARGIN: Duration = Duration::from_mins(1);
const TOKEN_JITTER: f64 = 0.1;

/// How the phones come back, as a table, and a plot beside it.
pub fn table() -> anyhow::Result<String> {
    let mut table = String::from(
        "| clients | quota | tries/s | answered 429 | tokens/s | tokens | 50 % back | 95 % | 100 % | connects/s later | at most |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut plotted = Vec::new();
    for clients in all() {
        let run = Run::of(&clients);
        run.write(&mut table, &clients);
        if clients.quota == QUOTA {
            plotted.push((clients.name, run.opened_by_minute()));
        }
    }
    plot::lines_below_legend("storm", "minutes since the break began", "connects/s", &plotted)?;
    Ok(table)
}

/// What the phones do about a connection that ends.
struct Clients {
    name: &'static str,
    timing: Timing,
    /// How long a token is valid.
    token: Duration,
    /// Whether they keep a token for as long as it is valid, and replace a connection before its token ends. Otherwise the app
    /// fetches one at each try, and they learn from a refused request that it has ended.
    by_token: bool,
    quota: usize,
}

fn all() -> [Clients; 6] {
    let usual = Timing::default();
    let crowded = Timing {
        reconnect_busy_max: usual.reconnect_max,
        lifetime: Duration::from_hours(2),
        lifetime_jitter: Duration::from_mins(5),
        ..usual.clone()
    };
    let without = |name, token, quota| Clients { name, timing: crowded.clone(), token, by_token: false, quota };
    let ours = |name, token, quota| Clients { name, timing: usual.clone(), token, by_token: true, quota };
    [
        without("without the rules, tokens of an hour", HOUR, QUOTA),
        without("without the rules, tokens of a day", DAY, QUOTA),
        ours("ours, tokens of an hour", HOUR, QUOTA),
        ours("ours, tokens of a day", DAY, QUOTA),
        ours("ours, tokens of an hour", HOUR, RAISED_QUOTA),
        ours("ours, tokens of a day", DAY, RAISED_QUOTA),
    ]
}

struct Phone {
    dials_at: Duration,
    /// Tries since a connection was opened.
    attempt: u32,
    token_ends_at: Duration,
    /// The next connection must have another token than the last one.
    token_is_old: bool,
    is_back: bool,
}

impl Clients {
    /// One that has just lost its connection, and its token is of any age.
    fn lost(&self, rng: &mut Rng) -> Phone {
        let token_ends_at = self.token.mul_f64(rng.f64()).max(TOKEN_MARGIN);
        let mut phone =
            Phone { dials_at: Duration::ZERO, attempt: 0, token_ends_at, token_is_old: false, is_back: false };
        self.fail(&mut phone, false, rng);
        phone
    }

    /// Whether the issuer is asked before this try.
    fn takes_token(&self, phone: &mut Phone) -> bool {
        let asks = !self.by_token || phone.token_is_old || phone.token_ends_at <= phone.dials_at;
        if asks {
            phone.token_ends_at = phone.dials_at + self.token;
            phone.token_is_old = false;
        }
        asks
    }

    /// Plans the next try; `busy`: this one was answered, with 429.
    fn fail(&self, phone: &mut Phone, busy: bool, rng: &mut Rng) {
        let Timing { reconnect_first, reconnect_max, reconnect_busy_max, .. } = self.timing;
        let max = if busy { reconnect_busy_max } else { reconnect_max };
        let pause = reconnect_first.saturating_mul(2_u32.saturating_pow(phone.attempt)).min(max);
        phone.dials_at += pause.mul_f64(rng.f64());
        phone.attempt += 1;
    }

    /// Plans when the connection is replaced.
    fn open(&self, phone: &mut Phone, rng: &mut Rng) {
        let lifetime = self.timing.lifetime.saturating_sub(self.timing.lifetime_jitter.mul_f64(rng.f64()));
        let token_left = phone.token_ends_at.saturating_sub(phone.dials_at);
        let by_token = if self.by_token {
            token_left.saturating_sub(TOKEN_MARGIN).mul_f64(1.0 - TOKEN_JITTER * rng.f64())
        } else {
            // The first request after its end is a ping.
            token_left + self.timing.ping_every.mul_f64(rng.f64())
        };
        phone.token_is_old = by_token < lifetime;
        phone.dials_at += lifetime.min(by_token);
        (phone.attempt, phone.is_back) = (0, true);
    }
}

/// What happened in each second since the break began, in phones that each stand for [`EACH`].
struct Run {
    tried: Vec<usize>,
    opened: Vec<usize>,
    tokens: Vec<usize>,
    /// How long after the break each was back, in this order.
    back: Vec<Duration>,
}

impl Run {
    fn of(clients: &Clients) -> Self {
        let mut rng = Rng::with_seed(SEED);
        let [tried, opened, tokens] = std::array::from_fn(|_| vec![0; SHOWN_S]);
        let mut run = Self { tried, opened, tokens, back: Vec::new() };
        // By the second in which they try next.
        let mut due: Vec<VecDeque<Phone>> = std::iter::repeat_with(VecDeque::new).take(SHOWN_S).collect();
        for _ in 0..PHONES / EACH {
            plan(&mut due, clients.lost(&mut rng));
        }
        for second in 0..SHOWN_S {
            while let Some(mut phone) = due[second].pop_front() {
                run.tried[second] += 1;
                run.tokens[second] += usize::from(clients.takes_token(&mut phone));
                let answered = phone.dials_at >= BREAK;
                if answered && run.opened[second] < clients.quota / EACH {
                    run.opened[second] += 1;
                    if !phone.is_back {
                        run.back.push(phone.dials_at.saturating_sub(BREAK));
                    }
                    clients.open(&mut phone, &mut rng);
                } else {
                    clients.fail(&mut phone, answered, &mut rng);
                }
                plan(&mut due, phone);
            }
        }
        run
    }

    fn write(&self, table: &mut String, clients: &Clients) {
        let number = |phones: usize| with_commas((phones * EACH) as f64);
        let minutes = |percent| format!("{:.0} min", report::percentile_ms(&self.back, percent) / 60_000.0);
        assert_eq!(self.back.len(), PHONES / EACH, "some never come back");
        let refused = self.tried[BREAK_S..].iter().sum::<usize>() - self.opened.iter().sum::<usize>();
        let (tokens, tries) = (self.tokens[..HOUR_S].iter().sum(), worst_minute(&self.tried[BREAK_S..]));
        let later = &self.opened[LATER_S..];
        let mean = later.iter().sum::<usize>() / later.len();
        let cells = [
            clients.name.to_owned(),
            with_commas(clients.quota as f64),
            number(tries),
            number(refused),
            number(worst_minute(&self.tokens)),
            number(tokens),
            minutes(50),
            minutes(95),
            minutes(100),
            number(mean),
            number(worst_minute(later)),
        ];
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }

    fn opened_by_minute(&self) -> Vec<(f64, f64)> {
        let minutes = self.opened.chunks(60).enumerate();
        minutes.map(|(minute, opened)| (minute as f64, (opened.iter().sum::<usize>() * EACH) as f64 / 60.0)).collect()
    }
}

fn plan(due: &mut [VecDeque<Phone>], phone: Phone) {
    let second = usize::try_from(phone.dials_at.as_secs()).unwrap();
    if let Some(due) = due.get_mut(second) {
        due.push_back(phone);
    }
}

/// How many a second, in the minute with the most.
fn worst_minute(seconds: &[usize]) -> usize {
    seconds.chunks(60).map(|minute| minute.iter().sum::<usize>() / 60).max().unwrap()
}
