//! Prints what the functions take, in milliseconds, and the sizes of what they make: `cargo run --release --example
//! figures` in this folder. All leaves are fresh, which is the worst case.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a program for developers"
)]

#[path = "../tests/world/mod.rs"]
mod world;

use std::time::Instant;

use pigeonhole_sealing::{Followed, Group, Step};
use world::{Content, World, text};

const RUNS: u32 = 100;

fn main() {
    println!("| | 2 leaves | 20 leaves | 200 leaves |\n|---|---|---|---|");
    let columns: Vec<Vec<(&str, String)>> =
        [(2, 1), (2, 10), (20, 10)].map(|(users, devices)| column(users, devices)).into();
    for row in 0..columns[0].len() {
        let cells: Vec<&str> = columns.iter().map(|column| column[row].1.as_str()).collect();
        println!("| {} | {} |", columns[0][row].0, cells.join(" | "));
    }
}

/// Returns the mean of some runs.
fn ms<T>(runs: u32, mut what: impl FnMut() -> T) -> (T, String) {
    let started = Instant::now();
    let mut last = what();
    for _ in 1..runs {
        last = what();
    }
    let each = started.elapsed().as_secs_f64() * 1_000.0 / f64::from(runs);
    (last, format!("{each:.2} ms"))
}

fn bytes(length: usize) -> String {
    if length < 10_000 { format!("{length} B") } else { format!("{:.1} KB", length as f64 / 1_000.0) }
}

fn column(users: usize, devices: usize) -> Vec<(&'static str, String)> {
    let mut world = World::group(users, devices);
    let last = world.phones.len() - 1;
    let all: Vec<usize> = (1..=last).collect();
    let (born, birth) = ms(1, || world.birth(0, &all));
    assert!(born);
    let Content::Commit { welcome: Some((welcome, tree)), .. } = &world.log[0].content else { panic!() };
    let sizes = [("Welcome", welcome.len()), ("tree", tree.len()), ("group info", world.group_info.len())];
    let package = world.phones[1].packages[0].0.len();
    let ((), joined) = ms(1, || world.catch_up(1, 1));
    world.catch_up(0, 1);
    let conversation = world.conversation.clone();
    let group = world.phones[0].group.clone().unwrap();
    let (client_msg_id, plaintext) = (world.next_id(), text(&"a".repeat(200)));
    let ((_, sealed), seal) = ms(RUNS, || group.seal(&conversation, &client_msg_id, &plaintext).unwrap());
    let logged = world.say(0);
    let Content::Sealed { body, .. } = &logged.content else { panic!() };
    let entry = world.entry(&logged);
    let reader = world.phones[1].group.clone().unwrap();
    let (_, open) = ms(RUNS, || reader.open(entry, body).unwrap());
    let stored = (reader.state().to_vec(), reader.tree().to_vec());
    let (_, load) = ms(RUNS, || Group::from_stored(stored.0.clone(), stored.1.clone()).unwrap());
    let runs = if users * devices > 100 { 3 } else { 20 };
    let ((_, pending), commit) =
        ms(runs, || group.commit(&conversation, &client_msg_id, Step::Update, world::NOW_S).unwrap());
    let update = pending.commit.as_ref().unwrap().clone();
    let removed = world.phones[last].member().clone();
    let step = Step::Remove(&[(&removed.user, &removed.device)]);
    let (_, without) = group.commit(&conversation, &client_msg_id, step, world::NOW_S).unwrap();
    let packages = world.checked(&[last], 0);
    let add_one = || without.next.commit(&conversation, &client_msg_id, Step::Add(&packages), world::NOW_S).unwrap();
    let ((_, added), add) = ms(runs, add_one);
    let added = added.commit.unwrap().len();
    world.phones[0].pending = Some(pending);
    assert!(world.send(0));
    let logged = world.log.last().unwrap().clone();
    let entry = world.entry(&logged);
    let (followed, follow) = ms(runs, || reader.follow(entry, &update, None).unwrap());
    assert!(matches!(followed, Followed::Changed(..)));
    world.phones[last].group = None;
    let (join, external) = ms(runs, || world.join(last));
    join.unwrap();
    let external_bytes = world.phones[last].pending.as_ref().unwrap().commit.as_ref().unwrap().len();
    let mut rows = vec![
        ("birth", birth),
        ("join by Welcome", joined),
        ("seal 200 characters", seal),
        ("open", open),
        ("check a stored state", load),
        ("add a device", add),
        ("make an update", commit),
        ("follow it", follow),
        ("join alone", external),
        ("package", bytes(package)),
        ("sealed message", bytes(sealed.len())),
        ("addition", bytes(added)),
        ("update", bytes(update.len())),
        ("join", bytes(external_bytes)),
        ("state", bytes(stored.0.len())),
    ];
    rows.extend(sizes.map(|(name, length)| (name, bytes(length))));
    rows
}
