//! A simulation of a million phones that lose their connections and reconnect. Each run gives the same result.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;
use pigeonhole_client::Timing;

use crate::money::with_commas;
use crate::{plot, report};

const PHONES: usize = 1_000_000;
/// Each simulated phone stands for this number of phones. A tenth of the phones with a tenth of the quota behaves the
/// same.
const EACH: usize = 10;
/// New connections per second that API Gateway takes of an account in a Region, by default and with a raised quota. API
/// Gateway replies 429 to further ones.
const QUOTA: usize = 500;
const RAISED_QUOTA: usize = 2_000;
/// The time without any reply.
const BREAK: Duration = Duration::from_mins(10);
const BREAK_S: usize = 600;
/// The simulated time, from the beginning of the break.
const SHOWN_S: usize = 4 * 3600;
/// The time until which tokens count. By then all phones are back.
const HOUR_S: usize = 3600;
/// The time from which only the consequences remain.
const LATER_S: usize = 90 * 60;
const SEED: u64 = 1;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The two constants are as in `clients/core/src/session/links.rs`, where they are private.
const TOKEN_MARGIN: Duration = Duration::from_mins(1);
const TOKEN_JITTER: f64 = 0.1;

/// Returns the reconnects as a table, and writes a plot.
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

/// The behaviour of phones whose connection ends.
struct Clients {
    name: &'static str,
    timing: Timing,
    /// How long a token is valid.
    token: Duration,
    /// Whether the phones keep a valid token, and replace a connection before its token expires. Otherwise the app
    /// fetches a token at each try, and a refused request reports that the token has expired.
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
    /// Tries since the last open connection.
    attempt: u32,
    token_ends_at: Duration,
    /// The next connection needs another token.
    token_is_old: bool,
    is_back: bool,
}

impl Clients {
    /// Creates a phone that has just lost its connection, with a token of any age.
    fn lost(&self, rng: &mut Rng) -> Phone {
        let token_ends_at = self.token.mul_f64(rng.f64()).max(TOKEN_MARGIN);
        let mut phone =
            Phone { dials_at: Duration::ZERO, attempt: 0, token_ends_at, token_is_old: false, is_back: false };
        self.fail(&mut phone, false, rng);
        phone
    }

    /// Returns whether the phone gets a token before this try.
    fn takes_token(&self, phone: &mut Phone) -> bool {
        let asks = !self.by_token || phone.token_is_old || phone.token_ends_at <= phone.dials_at;
        if asks {
            phone.token_ends_at = phone.dials_at + self.token;
            phone.token_is_old = false;
        }
        asks
    }

    /// Plans the next try; `busy`: API Gateway replied 429 to this one.
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
            // The first request after its expiry is a ping.
            token_left + self.timing.ping_every.mul_f64(rng.f64())
        };
        phone.token_is_old = by_token < lifetime;
        phone.dials_at += lifetime.min(by_token);
        (phone.attempt, phone.is_back) = (0, true);
    }
}

/// The counts of each second since the break began, in phones that each stand for [`EACH`].
struct Run {
    tried: Vec<usize>,
    opened: Vec<usize>,
    tokens: Vec<usize>,
    /// The time from the end of the break to each reconnect, in this order.
    back: Vec<Duration>,
}

impl Run {
    fn of(clients: &Clients) -> Self {
        let mut rng = Rng::with_seed(SEED);
        let [tried, opened, tokens] = std::array::from_fn(|_| vec![0; SHOWN_S]);
        let mut run = Self { tried, opened, tokens, back: Vec::new() };
        // By the second of the next try.
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

/// Returns the number per second in the busiest minute.
fn worst_minute(seconds: &[usize]) -> usize {
    seconds.chunks(60).map(|minute| minute.iter().sum::<usize>() / 60).max().unwrap()
}
