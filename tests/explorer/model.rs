//! The functions as a model to explore. Each actor has its own clients, all of them before the same gate, and phones
//! record the frames that they receive.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use futures_util::future::LocalBoxFuture;
use lambda::{Context, InvocationEvent, LambdaEvent};
use serde_json::{Value, json};
use template::plain_item;
use testkit::cloud::{Cloud, Rows, Touch, object_touch, socket_touch};
use testkit::explorer::{Actor, Model};
use testkit::fake_s3::FakeS3;
use testkit::fake_sns::{FakeSns, Push};
use testkit::half_seen::HalfSeen;
use testkit::schedule::Step;
use testkit::{AwsCall, Fault, Filter, Gate, InProcess, Limits, ManualClock, Passed, frame_of, stream};
use wire::Timestamp;

use crate::groups::{history_of, names};
use crate::invariants::{Held, Tables, counts, ensure, is_deleted, number, string};
use crate::scenarios::{Doing, REFUSED, REWRITTEN, SERVICE, SLOW, Scenario};

/// The uploaded bytes, and their digest.
const PICTURE: &[u8] = b"hi";
const PICTURE_SHA256: &str = "j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ=";

/// The filter's text for [`REWRITTEN`].
const HIDDEN: &str = "•••";

/// More runs than any erasure takes.
const ERASE_RUNS_MAX: usize = 40;

/// More pages than any scenario fills.
const PAGES_MAX: usize = 8;

/// Clones are the same model.
#[derive(Clone)]
pub(crate) struct ChatModel(Rc<Inner>);

struct Inner {
    scenario: Scenario,
    gate: Gate,
    clock: ManualClock,
    /// By actor.
    functions: Vec<InProcess>,
    initial: RefCell<InitialState>,
    now: RefCell<State>,
}

/// How things stand when the actors begin.
#[derive(Default)]
struct InitialState {
    rows: Rows,
    /// All of them opened a minute before.
    sockets: BTreeMap<String, Vec<Value>>,
    sns: FakeSns,
    s3: FakeS3,
    half_seen: HalfSeen,
    connected_at: Timestamp,
    /// The time at which each schedule begins.
    begins_at: Timestamp,
    state: State,
}

/// How things stand, apart from what is stored.
#[derive(Default, Clone)]
struct State {
    tables: Tables,
    held: Held,
    /// Which actors got what they asked for.
    done: Vec<bool>,
    /// Replies to `send`: sender, id, result.
    sent: Vec<(&'static str, &'static str, Value)>,
    broken: Option<String>,
    /// The rows of the inbox table, as DynamoDB writes them.
    inbox: Vec<Value>,
    /// Writes to the inbox table, as records of the stream, and how many of these are delivered.
    records: Vec<Value>,
    handed_on: usize,
    /// How many entries `publish` got, and by actor which were deleted when `publish` read them.
    heard: usize,
    seen_deleted: BTreeMap<usize, Vec<u64>>,
    /// Moved groups, as records of the heads' stream, and how many of these are delivered.
    moved: Vec<Value>,
    moved_handed_on: usize,
    /// Media rows, as DynamoDB writes them; removed ones, as records of their stream, and how many of these are
    /// delivered.
    media: Vec<Value>,
    removed: Vec<Value>,
    removed_handed_on: usize,
    /// Where each picture was put.
    uploads: Vec<Value>,
    /// By actor: up to where the user had acknowledged when it looked, before it rang.
    seen_delivered: BTreeMap<usize, u64>,
    /// Replies to claims of bob's keys: user, id, his devices.
    claimed: Vec<(&'static str, &'static str, Value)>,
    /// The reply to who watches bob: whether he is online, and how many events had come when it was requested.
    sees: Option<(&'static str, usize, bool)>,
}

/// A team's filter, which judges by the text.
fn filter() -> Filter {
    Arc::new(|question| {
        let text = question["message"]["body"].as_str().unwrap_or_default().to_owned();
        Box::pin(async move {
            if text == SLOW {
                // Longer than what was read stays fresh.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(match text.as_str() {
                REFUSED => json!({ "allow": false }),
                REWRITTEN => json!({ "allow": true, "set": { "body": HIDDEN } }),
                _ => json!({ "allow": true }),
            })
        })
    })
}

/// Returns rows as plain JSON, in the order of their seqs.
fn plain_rows(rows: &[Value]) -> Vec<Value> {
    let mut rows: Vec<Value> = rows.iter().map(plain_item).collect();
    rows.sort_by_key(|row| row["seq"].as_u64());
    rows
}

impl ChatModel {
    pub(crate) async fn new(scenario: Scenario) -> Self {
        let gate = Gate::new(Cloud::new());
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let limits = if scenario.is_sampled() { Limits::of_requests() } else { Limits::default() };
        let presence = scenario.shows_presence();
        let limits = Limits { connections: scenario.connections_max, presence, ..limits };
        let functions = |actor| {
            let functions = InProcess::new(
                &gate.dynamodb_client(actor),
                gate.management_client(actor),
                gate.sns_client(actor),
                gate.s3_client(actor),
                clock.clone(),
                limits,
            )
            .with_queue(gate.sqs_client(actor));
            if scenario.is_filtered() { functions.with_filter((filter(), true)) } else { functions }
        };
        let functions = (0..scenario.at_once.len()).map(functions).collect();
        let (initial, now) = (RefCell::default(), RefCell::default());
        let model = Self(Rc::new(Inner { scenario, gate, clock, functions, initial, now }));
        model.prepare().await;
        model
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// Runs the steps before the concurrent ones.
    async fn prepare(&self) {
        let inner = &self.0;
        inner.now.borrow_mut().done = vec![false; inner.scenario.at_once.len()];
        for doing in inner.scenario.before {
            inner.act(0, *doing, "").await;
            // A query can miss a part of the transaction of a function that died, and of no other.
            if !matches!(doing, Doing::Dying(_)) {
                inner.gate.with_cloud(|cloud| cloud.half_seen.settle());
            }
            inner.note_frames().unwrap();
            inner.look().expect("nothing is broken before it begins");
        }
        let connected_at = inner.clock.now();
        // Connections are no longer young.
        inner.clock.advance(Duration::from_mins(1));
        let mut state = inner.now.borrow().clone();
        state.done.fill(false);
        *inner.initial.borrow_mut() = inner.gate.with_cloud(|cloud| InitialState {
            rows: cloud.rows(),
            sockets: cloud.sockets().clone(),
            sns: cloud.sns.clone(),
            s3: cloud.s3.clone(),
            half_seen: cloud.half_seen.clone(),
            connected_at,
            begins_at: inner.clock.now(),
            state,
        });
    }
}

impl Model for ChatModel {
    fn begin(&self) -> Vec<Actor> {
        let InitialState { rows, sockets, sns, s3, half_seen, begins_at, state, .. } = &*self.0.initial.borrow();
        // A server's repetition depends on the time of the first try.
        self.0.clock.set(*begins_at);
        self.0.gate.with_cloud(|cloud| {
            cloud.restore(rows);
            cloud.sockets_restore(sockets);
            cloud.sns.clone_from(sns);
            cloud.s3.clone_from(s3);
            cloud.half_seen.clone_from(half_seen);
            cloud.published.clear();
        });
        self.0.now.borrow_mut().clone_from(state);
        self.0.uploaded_now();
        let actor = |(n, doing): (usize, &Doing)| {
            let (inner, doing) = (Rc::clone(&self.0), *doing);
            let name = format!("{}/{}", doing.user(), doing.verb());
            Actor { name, run: Box::pin(async move { inner.act(n, doing, &format!("2{n}")).await }) }
        };
        self.0.scenario.at_once.iter().enumerate().map(actor).collect()
    }

    fn after(&self, passed: &Passed) -> Result<(), String> {
        // Rows that go one after another do not agree in between. The end decides.
        if self.0.scenario.erases() {
            return Ok(());
        }
        match &passed.call {
            Some(call)
                if call.is_stale_read()
                    && !self.0.scenario.shows_presence()
                    && !self.0.is_of_own_devices(passed.actor, call)
                    && !may_be_stale(call) =>
            {
                return Err(format!("not a consistent read: {}", passed.what));
            }
            Some(AwsCall::Post { connection, frame }) if passed.status == Some(200) => {
                self.0.received(connection, frame)?;
            }
            Some(call) if call.operation() == "BatchGetItem" => self.0.checks(passed.actor),
            Some(call) if call.operation() == "SendMessageBatch" => self.0.publishes(passed.actor, call)?,
            Some(call) if call.operation() == "Publish" && passed.status == Some(200) => self.0.rings(passed.actor)?,
            Some(call) if call.writes() && passed.status.is_some() => self.0.look()?,
            _ => {}
        }
        self.0.unbroken()
    }

    async fn end(&self, faults: &[Step]) -> Result<(), String> {
        if self.0.scenario.erases() {
            return self.0.nothing_is_left_of_the_erased().await;
        }
        self.0.unbroken()?;
        self.0.ask_again().await?;
        self.0.keys_are_handed_out_once()?;
        self.0.sealed_conversations_go_on().await?;
        self.0.hand_on_all_heads().await?;
        self.0.everything_is_published().await?;
        self.0.only_what_is_attached_or_waits_is_kept().await?;
        let half = |step: &Step| step.fault.is_some_and(Fault::shows_half);
        let killed = |step: &Step| matches!(step.fault, Some(Fault::Killed | Fault::Conflict)) || half(step);
        if faults.iter().all(killed) {
            self.0.who_watches_has_everything()?;
        }
        // A request that dies after it moved the caller's own row in a group leaves its entries pending until a `ping`.
        // Writers and the stream repeat the posts of a run that died.
        let is_told =
            |step: &Step| !self.0.is_group() || step.fault != Some(Fault::Killed) || self.0.repeats(step.actor);
        if faults.iter().all(|step| killed(step) && is_told(step)) {
            // The post of a run that died is repeated for the last entry alone.
            let gaps = self.0.is_group() && faults.iter().any(|step| step.fault == Some(Fault::Killed));
            self.0.everybody_connected_has_everything(gaps)?;
            if !self.0.is_group() {
                self.0.senders_have_their_ticks()?;
            }
        }
        if faults.is_empty() {
            self.0.who_watches_knows()?;
        }
        self.0.hand_on_the_rest().await?;
        self.0.who_lacks_something_was_rung()?;
        // A mention that DynamoDB does not take is logged, and the message stays.
        if faults.iter().all(|step| matches!(step.fault, Some(Fault::Killed | Fault::Conflict))) {
            self.0.who_is_mentioned_was_rung()?;
        }
        // A function that dies between a push and its mark does not know that a dismissal is needed.
        if faults.iter().all(|step| step.fault == Some(Fault::Conflict)) {
            self.0.no_phone_shows_what_was_read()?;
        }
        // A socket that a post called gone while it was open has lost its row, and can't be found.
        if faults.iter().all(killed) {
            self.0.nobody_suspended_is_connected()?;
            self.0.who_floods_and_goes_on_is_connected_nowhere().await?;
        }
        let by_operators = self.0.scenario.at_once.iter().filter(|doing| matches!(doing, Doing::Suspend(_)));
        for user in by_operators.map(|doing| doing.user()).chain(self.0.scenario.floods()) {
            self.0.operate(0, &json!({ "op": "unsuspend", "user_id": user })).await;
        }
        // A reconnecting user is newer than the earlier connections.
        self.0.clock.advance(Duration::from_millis(1));
        let users: &[&'static str] = if self.0.is_group() { &["alice", "bob", "carol"] } else { &["alice", "bob"] };
        for user in users.iter().copied() {
            self.0.come_back(user).await?;
            if faults.iter().all(killed) {
                self.0.nobody_has_too_many_sockets(user)?;
            }
        }
        self.0.exactly_once()
    }
}

/// Returns the request for a channel that any user may join and post in.
fn opening(members: &[&str]) -> Value {
    let mut create = json!({ "action": "create", "client_msg_id": "c1", "title": "x", "members": members });
    for (name, value) in
        [("kind", "channel"), ("join", "open"), ("post", "all"), ("history", "all"), ("rings", "mentions")]
    {
        create[name] = json!(value);
    }
    create
}

fn saying(id: &str, mentions: &[&str]) -> Value {
    json!({ "action": "send", "kind": "text", "body": id, "client_msg_id": id, "mentions": mentions })
}

/// The other one of alice and bob.
fn peer_of(user: &str) -> &'static str {
    if user == "alice" { "bob" } else { "alice" }
}

/// The commit that ends the epoch; its bytes name it.
fn committing(user: &str, id: &str, epoch: u64, removes: &[&str], is_birth: bool) -> Value {
    let mut commit = keys(user, id, epoch);
    commit["action"] = json!("commit");
    commit["client_msg_id"] = json!(id);
    if is_birth {
        commit["welcome"] = commit["commit"].take();
        commit.as_object_mut().unwrap().remove("commit");
    }
    if !removes.is_empty() {
        commit["removes"] = json!(removes);
    }
    commit
}

fn keys(user: &str, id: &str, epoch: u64) -> Value {
    let bytes = |part: &str| BASE64.encode(format!("{part} {user} {id}").as_bytes());
    json!({ "epoch": epoch, "commit": bytes("commit"), "group_info": bytes("info"), "tree": bytes("tree") })
}

fn creating(members: &[&str]) -> Value {
    json!({ "action": "create", "client_msg_id": "c1", "title": "x", "members": members })
}

fn is_commit(entry: &Value) -> bool {
    entry["kind"] == "commit"
}

fn sealing(id: &str, epoch: u64) -> Value {
    let body = BASE64.encode(id.as_bytes());
    json!({ "action": "send", "client_msg_id": id, "kind": "sealed", "epoch": epoch, "body": body })
}

/// The object's key, by a media row, by the reply to `upload` or by a message.
fn object_key(media: &Value, is_sealed: bool) -> String {
    let kind = if is_sealed { "sealed" } else { "image" };
    format!("media/{kind}/{}", media["media_id"].as_str().unwrap())
}

/// How a group's managers ask for it.
fn managing(action: &str, whom: &str, id: &str, keys: Option<Value>) -> Value {
    let welcome = keys.as_ref().filter(|_| action == "add").map(|keys| keys["tree"].clone());
    let (action, more) = match action {
        "add" => ("add", json!({ "members": [whom] })),
        "promote" => ("role", json!({ "user_id": whom, "role": "admin" })),
        "restrict" => ("restrict", json!({ "user_id": whom, "until": "forever" })),
        "demote" => ("role", json!({ "user_id": whom, "role": "member" })),
        action => (action, json!({ "user_id": whom })),
    };
    let mut frame = json!({ "action": action, "client_msg_id": id });
    for fields in [Some(more), keys, welcome.map(|welcome| json!({ "welcome": welcome }))].into_iter().flatten() {
        frame.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    frame
}

impl Inner {
    /// Runs a phone's action. `suffix` distinguishes its connection from the user's others.
    async fn act(&self, n: usize, doing: Doing, suffix: &str) {
        if let Doing::Dying(doing) = doing {
            self.gate.with_cloud(Cloud::die_after_commit);
            Box::pin(self.act(n, *doing, suffix)).await;
            self.gate.with_cloud(Cloud::revive);
            return;
        }
        let connection = format!("{}={suffix}", doing.user());
        let done = match doing {
            Doing::Send { from, to, id } => self.send(n, from, to, id).await,
            Doing::Connect(user) => self.connect(n, user, &connection).await && self.drain(n, user).await,
            Doing::Disconnect(user) => self.disconnect(n, user).await,
            Doing::Drain(user) => self.drain(n, user).await,
            Doing::Ack(user, seq) => {
                let entry = json!({ "conversation_id": self.conversation(), "seq": seq });
                self.ask(n, user, &json!({ "action": "ack", "up_to": [entry] })).await.is_some()
            }
            Doing::Block(..) | Doing::Unblock(..) | Doing::Mark(_) => self.set(n, doing).await,
            Doing::Register(..) | Doing::Offer(..) | Doing::Claim(..) => self.use_device(n, doing).await,
            Doing::Commit { .. } | Doing::Refer { .. } | Doing::Reset { .. } | Doing::Seal { .. } => {
                self.seal(n, doing).await
            }
            Doing::Own { from, id } => {
                let own = json!({ "action": "send", "client_msg_id": id, "kind": "xs-note", "data": { "of": id } });
                self.send_frame(n, from, id, &self.to_group_or_peer(from, own)).await
            }
            Doing::Fuse { from, id, read } => self.fuse(n, (from, id), read).await,
            Doing::Notify(_) => self.hand_on(n).await,
            Doing::Hear => self.hand_on_entries(n).await,
            Doing::Suspend(user) => self.suspend(n, user).await,
            Doing::Erase(user) => self.erase(n, user).await,
            Doing::Fill(user) => self.fill(user),
            Doing::Ask(user) => self.ask(n, user, &json!({ "action": "ping" })).await.is_some(),
            Doing::Kick(user) => self.operate(n, &json!({ "op": "kick", "user_id": user })).await,
            Doing::Edit { .. } | Doing::Delete { .. } | Doing::React { .. } | Doing::Pin { .. } => {
                self.change(n, doing).await
            }
            Doing::Create(user, members) => self.entry(n, user, "c1", &creating(members)).await,
            Doing::Channel(user, members) => self.entry(n, user, "c1", &opening(members)).await,
            Doing::Join(user) => self.ask(n, user, &self.in_group(json!({ "action": "join" }))).await.is_some(),
            Doing::Watch(user) => self.watch(n, user).await,
            Doing::Say(user, id) => self.entry(n, user, id, &self.in_group(saying(id, &[]))).await,
            Doing::Mention(user, id) => self.entry(n, user, id, &self.in_group(saying(id, &["bob"]))).await,
            Doing::Manage { user, action, whom, id, epoch } => {
                let keys = epoch.map(|epoch| keys(user, id, epoch));
                self.entry(n, user, id, &self.in_group(managing(action, whom, id, keys))).await
            }
            Doing::Fanout => self.hand_on_heads(n).await,
            Doing::Upload(user) => self.upload(n, user).await,
            Doing::Carry { from, id, epoch } => self.carry(n, (from, id), epoch).await,
            Doing::Put(_) => self.put_again(n).await,
            Doing::Fetch(user) => self.fetch(n, user).await,
            Doing::Expire => self.expire(n).await,
            Doing::Sweep => self.hand_on_removed(n).await,
            Doing::Dying(_) => true,
            Doing::Publish(_) | Doing::Tell(_) | Doing::Moderate(_) => self.serve(n, doing).await,
            Doing::Look(user) => self.ask(n, user, &json!({ "action": "inbox" })).await.is_some(),
            Doing::See(user) => self.see(n, user).await,
            Doing::Catch(user) => self.catch(n, user).await,
            Doing::Read(user, seq) => {
                self.ask(n, user, &self.in_group(json!({ "action": "read", "seq": seq }))).await.is_some()
            }
        };
        self.now.borrow_mut().done[n] |= done;
    }

    /// Sends what the user's device sealed, or a commit. Boxed, like other requests.
    fn seal(&self, n: usize, doing: Doing) -> LocalBoxFuture<'_, bool> {
        let (user, id, frame) = match doing {
            Doing::Commit { user, id, epoch, removes } => (user, id, committing(user, id, epoch, removes, epoch == 0)),
            Doing::Refer { user, id, epoch } => {
                let mut commit = committing(user, id, epoch, &[], false);
                commit["tree"] = json!({ "media_id": self.now.borrow().uploads[0]["media_id"] });
                (user, id, commit)
            }
            Doing::Reset { user, id, epoch } => (user, id, committing(user, id, epoch, &[], true)),
            Doing::Seal { from, id, epoch } => (from, id, sealing(id, epoch)),
            other => unreachable!("{other:?} seals nothing"),
        };
        Box::pin(async move { self.send_frame(n, user, id, &self.to_group_or_peer(user, frame)).await })
    }

    /// Runs an action of a team's own servers. Boxed, like other requests.
    fn serve(&self, n: usize, doing: Doing) -> LocalBoxFuture<'_, bool> {
        let conversation = |seq| json!({ "op": "delete_message", "conversation_id": self.conversation(), "seq": seq });
        Box::pin(async move {
            match doing {
                Doing::Publish(ids) => {
                    let message = |id: &&str| json!({ "from": SERVICE, "to": "bob", "client_msg_id": id, "kind": "text", "body": id });
                    let batch: Vec<_> = ids.iter().map(|id| ("bob", message(id))).collect();
                    let again = self.functions(n).ingest(&batch).await;
                    self.gate.pass(n, "has its answer", Vec::new()).await;
                    again.is_empty()
                }
                Doing::Tell(id) => {
                    let send = json!({
                        "op": "send", "as": SERVICE, "to": "bob", "client_msg_id": id, "kind": "text", "body": id,
                    });
                    let Some(result) = self.operated(n, &send).await else { return false };
                    self.now.borrow_mut().sent.push((SERVICE, id, result));
                    true
                }
                Doing::Moderate(seq) => self.operated(n, &conversation(seq)).await.is_some(),
                _ => false,
            }
        })
    }

    /// Uploads before the concurrent steps.
    async fn upload(&self, n: usize, user: &str) -> bool {
        let (bytes, sha256) = (PICTURE.len(), PICTURE_SHA256);
        let mut announce = json!({ "action": "upload", "kind": "sealed", "bytes": bytes, "sha256": sha256 });
        if self.now.borrow().tables.epochs.is_empty() {
            (announce["kind"], announce["mime"]) = (json!("image"), json!("image/png"));
        }
        let announce = self.to_group_or_peer(user, announce);
        let Some(place) = self.ask(n, user, &announce).await else { return false };
        let url = place["url"].as_str().unwrap();
        assert_eq!(self.gate.with_cloud(|cloud| cloud.s3.put(url, &place["headers"], PICTURE)), 200);
        let done = self.ask(n, user, &json!({ "action": "uploaded", "media_id": place["media_id"] })).await.is_some();
        self.now.borrow_mut().uploads.push(place);
        done
    }

    async fn carry(&self, n: usize, (from, id): (&'static str, &'static str), epoch: Option<u64>) -> bool {
        let mut media = json!({ "media_id": self.now.borrow().uploads[0]["media_id"] });
        let frame = if let Some(epoch) = epoch {
            sealing(id, epoch)
        } else {
            let picture = json!({
                "mime": "image/png", "bytes": PICTURE.len(), "sha256": PICTURE_SHA256, "width": 1, "height": 1
            });
            media.as_object_mut().unwrap().extend(picture.as_object().unwrap().clone());
            json!({ "action": "send", "client_msg_id": id, "kind": "image", "body": id })
        };
        let mut frame = self.to_group_or_peer(from, frame);
        frame["media"] = media;
        self.send_frame(n, from, id, &frame).await
    }

    /// To the group; without one, to the other user.
    fn to_group_or_peer(&self, user: &str, mut frame: Value) -> Value {
        if self.is_group() {
            return self.in_group(frame);
        }
        frame["to"] = json!(peer_of(user));
        frame
    }

    /// Requests the object's URL. The reply has it if a message has this media, which may be deleted meanwhile.
    async fn fetch(&self, n: usize, user: &str) -> bool {
        let media_id = self.now.borrow().uploads[0]["media_id"].clone();
        let download = json!({ "action": "download", "media_ids": [media_id] });
        let Some(answer) = self.ask(n, user, &download).await else { return false };
        let is_told = answer["items"].as_array().is_some_and(|items| !items.is_empty());
        let messages = self.tables().messages;
        let carries = |message: &&Value| message["kind"] == "image" || self.is_carried(&message["client_msg_id"]);
        let is_sent = messages.iter().any(|message| carries(&message));
        // The tree of an earlier epoch is gone some time.
        let is_there = messages.iter().filter(carries).any(|message| !is_deleted(message) && !is_commit(message));
        if is_told && !is_sent || is_there && !is_told {
            self.now.borrow_mut().broken = Some(format!("{user} was told {answer}, of {messages:?}"));
        }
        true
    }

    fn object_key(&self, media: &Value) -> String {
        object_key(media, !self.now.borrow().tables.epochs.is_empty())
    }

    /// Reports whether the message of this id has the picture.
    fn is_carried(&self, of: &Value) -> bool {
        let mut doings = self.scenario.before.iter().chain(self.scenario.at_once);
        doings.any(|doing| matches!(doing, Doing::Carry { id, .. } | Doing::Refer { id, .. } if of == *id))
    }

    /// Puts the object again, whatever the outcome: the URL is valid for a quarter of an hour.
    async fn put_again(&self, n: usize) -> bool {
        let place = self.now.borrow().uploads[0].clone();
        self.gate.pass(n, "puts", vec![object_touch(&self.object_key(&place), true)]).await;
        self.gate.with_cloud(|cloud| cloud.s3.put(place["url"].as_str().unwrap(), &place["headers"], PICTURE));
        true
    }

    /// At any time: what DynamoDB takes for the time is not what a function does.
    async fn expire(&self, n: usize) -> bool {
        self.gate.pass(n, "the TTL looks", self.media_touches("DeleteItem")).await;
        self.remove_media(|row| row.get("owner_id").is_some());
        self.look().is_ok()
    }

    /// Returns the places of a call about the first picture's row.
    fn media_touches(&self, operation: &str) -> Vec<Touch> {
        let media_id = self.now.borrow().uploads[0]["media_id"].clone();
        let body = json!({ "TableName": "MediaTable", "Key": { "media_id": { "S": media_id } } });
        self.gate.with_cloud(|cloud| cloud.touches(&AwsCall::Database { operation: operation.to_owned(), body }))
    }

    /// Removes rows that have an end, as the TTL does.
    fn remove_media(&self, is_due: impl Fn(&Value) -> bool) {
        self.gate.with_cloud(|cloud| {
            for row in cloud.scan("MediaTable").iter().filter(|row| row.get("expires_at").is_some() && is_due(row)) {
                cloud.remove("MediaTable", &json!({ "media_id": row["media_id"] }));
            }
        });
    }

    /// Delivers the removed media rows that are not delivered yet. Reports whether nothing must be delivered again.
    async fn hand_on_removed(&self, n: usize) -> bool {
        self.gate.pass(n, "the mapping looks", self.media_touches("GetItem")).await;
        let (records, handed_on) = (self.now.borrow().removed.clone(), self.now.borrow().removed_handed_on);
        let batch: Vec<_> = records.iter().skip(handed_on).cloned().collect();
        let done = batch.is_empty() || self.functions(n).sweep(batch).await == json!([]);
        if done {
            let mut state = self.now.borrow_mut();
            state.removed_handed_on = state.removed_handed_on.max(records.len());
        }
        done
    }

    /// Checks, after all deliveries and after all URLs have expired, that each object has a row.
    async fn only_what_is_attached_or_waits_is_kept(&self) -> Result<(), String> {
        if self.now.borrow().uploads.is_empty() {
            return Ok(());
        }
        self.look()?;
        ensure!(self.hand_on_removed(0).await, "handed on again, a batch still fails");
        self.look()?;
        self.remove_media(|row| row.get("removed_at").is_some());
        self.look()?;
        ensure!(self.hand_on_removed(0).await, "handed on again, a batch still fails");
        let rows = self.rows("MediaTable");
        let keys = self.gate.with_cloud(|cloud| cloud.s3.keys().into_iter().map(str::to_owned).collect::<Vec<_>>());
        let kept: Vec<_> =
            rows.iter().filter(|row| row.get("owner_id").is_some()).map(|row| self.object_key(row)).collect();
        ensure!(keys == kept, "an unattached object is never kept: {keys:?}, and there are rows of {kept:?}");
        self.look()
    }

    /// Dates the uploads of the preparation to now.
    fn uploaded_now(&self) {
        let end = self.clock.now().plus(Duration::from_hours(24)).seconds().to_string();
        let ready_at = self.clock.now().millis().to_string();
        self.gate.with_cloud(|cloud| {
            for mut row in cloud.scan("MediaTable") {
                row["ready_at"] = json!({ "N": ready_at });
                if row.get("expires_at").is_some() {
                    row["expires_at"] = json!({ "N": end });
                }
                cloud.put("MediaTable", &row);
            }
        });
        self.now.borrow_mut().media = self.gate.with_cloud(|cloud| cloud.scan("MediaTable"));
    }

    /// An attached object is never lost, and each message has its own.
    fn look_at_media(&self, tables: &Tables, state: &mut State) -> Result<(), String> {
        let (messages, is_sealed) = (&tables.messages, !tables.epochs.is_empty());
        let rows = self.gate.with_cloud(|cloud| cloud.scan("MediaTable"));
        for old in state.media.iter().filter(|old| !rows.iter().any(|row| row["media_id"] == old["media_id"])) {
            let keys = json!({ "media_id": old["media_id"] });
            let number = state.removed.len().to_string();
            state.removed.push(json!({
                "eventName": "REMOVE", "dynamodb": { "Keys": keys, "OldImage": old, "SequenceNumber": number }
            }));
        }
        let plain: Vec<Value> = rows.iter().map(plain_item).collect();
        state.media = rows;
        for message in messages.iter().filter(|message| message.get("media").is_some()) {
            let media: Value = serde_json::from_str(message["media"].as_str().unwrap()).unwrap();
            let row = plain.iter().find(|row| row["media_id"] == media["media_id"]);
            let is_its = row.is_some_and(|row| row["seq"] == message["seq"] && row.get("expires_at").is_none());
            ensure!(is_its, "{message} carries what is not attached to it: {row:?}");
            let key = object_key(&media, is_sealed);
            let is_there = self.gate.with_cloud(|cloud| cloud.s3.keys().contains(&key.as_str()));
            ensure!(is_there, "an attached object is never lost: {key}");
        }
        self.look_at_tree(tables, &plain)
    }

    /// The file of the newest tree is never lost. An earlier tree has an end, and an attached file has none.
    fn look_at_tree(&self, tables: &Tables, media: &[Value]) -> Result<(), String> {
        let newest = tables.epochs.first();
        let tree = newest.and_then(|row| serde_json::from_str::<Value>(row["tree"].as_str()?).ok());
        for row in media.iter().filter(|row| row.get("seq").is_some()) {
            let is_tree = tree.as_ref().is_some_and(|tree| tree["media_id"] == row["media_id"]);
            let is_carried =
                tables.messages.iter().any(|entry| entry["seq"] == row["seq"] && entry.get("media").is_some());
            let has_end = row.get("expires_at").is_some();
            ensure!(has_end != (is_tree || is_carried), "an end where it must stay, or none: {row}, {newest:?}");
        }
        let Some(tree) = tree else { return Ok(()) };
        let row = media.iter().find(|row| row["media_id"] == tree["media_id"]);
        let is_its = row.is_some_and(|row| Some(&row["seq"]) == newest.map(|newest| &newest["seq"]));
        ensure!(is_its, "the newest tree is not attached to its commit: {row:?}, {newest:?}");
        let key = object_key(&tree, true);
        let is_there = self.gate.with_cloud(|cloud| cloud.s3.keys().contains(&key.as_str()));
        ensure!(is_there, "the newest tree is never lost: {key}");
        Ok(())
    }

    async fn send(&self, n: usize, from: &'static str, to: &str, id: &'static str) -> bool {
        let send = json!({ "action": "send", "to": to, "client_msg_id": id, "kind": "text", "body": id });
        self.send_frame(n, from, id, &self.with_data(id, send)).await
    }

    fn with_data(&self, id: &str, mut frame: Value) -> Value {
        if self.scenario.has_data() {
            frame["data"] = json!({ "of": id });
        }
        frame
    }

    async fn send_frame(&self, n: usize, from: &'static str, id: &'static str, send: &Value) -> bool {
        let Some(result) = self.ask(n, from, send).await else { return false };
        // Refused: one of the two blocks the other.
        if result.is_null() {
            return true;
        }
        let tables = self.tables();
        if id == REWRITTEN {
            let texts = tables.by_client_msg_id(from, id).map(|message| &message["body"]);
            if !texts.chain([&result["message"]["body"]]).all(|text| text == HIDDEN) {
                self.now.borrow_mut().broken = Some(format!("what the filter rewrote is stored or told: {result}"));
            }
        }
        let stored = tables.by_client_msg_id(from, id).any(|message| message["message_id"] == result["message_id"]);
        if !stored {
            self.now.borrow_mut().broken = Some(format!("durable before answered: {id} is not stored: {result}"));
        }
        self.now.borrow_mut().sent.push((from, id, result));
        true
    }

    /// Writes a message with a read mark. A client sends `read` if the mark did not move, until that has its reply.
    fn fuse(&self, n: usize, (from, id): (&'static str, &'static str), read: u64) -> LocalBoxFuture<'_, bool> {
        let send = json!({ "action": "send", "client_msg_id": id, "kind": "text", "body": id, "read": read });
        Box::pin(async move {
            if !self.send_frame(n, from, id, &self.to_group_or_peer(from, send)).await {
                return false;
            }
            let is_moved = {
                let state = self.now.borrow();
                let mut own = state.sent.iter().filter(|(user, sent, _)| (*user, *sent) == (from, id));
                own.all(|(.., answer)| number(answer, "read_seq") >= read)
            };
            is_moved || self.ask(n, from, &self.in_group(json!({ "action": "read", "seq": read }))).await.is_some()
        })
    }

    fn in_group(&self, mut frame: Value) -> Value {
        frame["conversation_id"] = self.conversation();
        frame
    }

    /// An entry of a group, whose answer is kept.
    async fn entry(&self, n: usize, user: &'static str, id: &'static str, frame: &Value) -> bool {
        let Some(result) = self.ask(n, user, frame).await else { return false };
        // The server refused, or no user was new.
        if result.get("seq").is_some() {
            self.now.borrow_mut().sent.push((user, id, result));
        }
        true
    }

    /// Delivers the moved groups that are not delivered yet. Reports whether nothing must be delivered again.
    async fn hand_on_heads(&self, n: usize) -> bool {
        let (records, handed_on) = (self.now.borrow().moved.clone(), self.now.borrow().moved_handed_on);
        let batch: Vec<_> = records.iter().skip(handed_on).cloned().collect();
        let done = batch.is_empty() || self.functions(n).fanout(json!({ "Records": batch })).await == json!([]);
        if done {
            let mut state = self.now.borrow_mut();
            state.moved_handed_on = state.moved_handed_on.max(records.len());
        }
        done
    }

    /// Runs an action of a phone that is about itself.
    async fn use_device(&self, n: usize, doing: Doing) -> bool {
        match doing {
            Doing::Register(user, token) => {
                let register = json!({ "action": "device", "platform": "apns", "token": token });
                self.ask(n, user, &register).await.is_some()
            }
            Doing::Offer(user, packages) => self.offer(n, user, packages).await,
            Doing::Claim(user, id) => self.claim(n, user, id).await,
            other => unreachable!("{other:?} is of no device"),
        }
    }

    async fn offer(&self, n: usize, user: &str, packages: &[&str]) -> bool {
        let expires_at = Timestamp::from_millis(1_800_500_000_000);
        let package = |name: &str| {
            let data = BASE64.encode(&[&[0, 1, 0, 5, 0, 1, 0, 1], name.as_bytes()].concat());
            json!({ "data": data, "expires_at": expires_at })
        };
        let packages: Vec<_> = packages.iter().map(|name| package(name)).collect();
        let offer = json!({
            "action": "publish_keys", "credential": "Zg==", "key_packages": packages, "last_resort": package("last"),
        });
        self.ask(n, user, &offer).await.is_some()
    }

    async fn claim(&self, n: usize, user: &'static str, id: &'static str) -> bool {
        let mut claim = json!({ "action": "claim_keys", "claim_id": id, "users": ["bob"] });
        if self.is_group() {
            claim = self.in_group(claim);
        }
        let Some(mut result) = self.ask(n, user, &claim).await else { return false };
        // Bob is no member any more.
        if result.is_null() {
            return true;
        }
        self.now.borrow_mut().claimed.push((user, id, result["users"][0]["devices"].take()));
        true
    }

    /// Reports whether a sealed group has users who left, whom no commit has named.
    fn must_rekey(&self) -> bool {
        self.initial.borrow().state.tables.epoch().is_ok_and(|at| !at.unnamed.is_empty())
    }

    /// A sealed group takes a commit that names the users who left, and then a sealed message. The picture of a stale
    /// message stays free for that message at the new epoch.
    async fn sealed_conversations_go_on(&self) -> Result<(), String> {
        let tables = self.tables();
        let at = tables.epoch()?;
        for doing in self.scenario.at_once.iter().filter(|_| self.commits()) {
            let Doing::Carry { from, id, epoch: Some(_) } = *doing else { continue };
            if tables.by_client_msg_id(from, id).next().is_some() {
                continue;
            }
            self.carry(0, (from, id), Some(at.epoch)).await;
            ensure!(self.tables().by_client_msg_id(from, id).next().is_some(), "the picture is lost to {id}");
        }
        if !self.is_group() || at.epoch == 0 {
            return Ok(());
        }
        let unnamed: Vec<_> = at.unnamed.iter().map(String::as_str).collect();
        let info = self.ask(0, "alice", &self.in_group(json!({ "action": "group_info" }))).await;
        ensure!(info.is_some_and(|info| info["epoch"] == at.epoch), "the keys are not those of {}", at.epoch);
        let rekey = committing("alice", "rekey", at.epoch, &unnamed, false);
        for (id, frame) in [("rekey", rekey), ("on", sealing("on", at.epoch + 1))] {
            let stored = self.ask(0, "alice", &self.in_group(frame)).await.is_some_and(|result| !result.is_null());
            ensure!(stored, "a sealed group takes no {id}");
        }
        self.look()?;
        self.unbroken()
    }

    /// Checks that each package was handed out by one claim or is still there, and that a claim has one reply.
    fn keys_are_handed_out_once(&self) -> Result<(), String> {
        let state = self.now.borrow();
        let mut handed_out = BTreeMap::new();
        for (user, id, devices) in &state.claimed {
            ensure!(devices.as_array().is_some_and(|devices| devices.len() == 1), "{user}/{id} got {devices}");
            let (package, is_last) = (&devices[0]["key_package"], devices[0]["last_resort"] == true);
            for (other, other_id, devices) in &state.claimed {
                let is_same = devices[0]["key_package"] == *package;
                let is_repeated = (user, id) == (other, other_id);
                ensure!(!is_repeated || is_same, "{user}/{id} has two replies");
                ensure!(is_repeated || is_last || !is_same, "{package} went to {user}/{id} and {other}/{other_id}");
            }
            if !is_last {
                handed_out.insert(package.to_string(), user);
            }
        }
        let rows = self.rows("KeysTable");
        let count = |prefix: &str| rows.iter().filter(|row| string(row, "key_id").starts_with(prefix)).count();
        let (all, free) = (count("package "), count("free "));
        ensure!(all == free + handed_out.len(), "of {all} packages {free} are left, handed out: {handed_out:?}");
        Ok(())
    }

    async fn see(&self, n: usize, user: &'static str) -> bool {
        let before = self.presence_events(user).len();
        let watch = json!({ "action": "presence", "user_ids": ["bob"], "watch": true });
        let Some(answer) = self.ask(n, user, &watch).await else { return false };
        let online = answer["users"][0]["online"] == true;
        self.now.borrow_mut().sees = (answer["watched"] == json!(["bob"])).then_some((user, before, online));
        true
    }

    /// Whether bob was online, by each of the events that the user got.
    fn presence_events(&self, user: &str) -> Vec<bool> {
        let frames = self.gate.with_cloud(|cloud| cloud.sockets().get(&format!("{user}=")).cloned());
        let events = frames.into_iter().flatten().filter(|frame| frame["type"] == "presence");
        events.map(|event| event["online"] == true).collect()
    }

    /// Checks that who watches bob knows whether he is there. An event that came before the reply is newer than it.
    fn who_watches_knows(&self) -> Result<(), String> {
        let Some((user, before, online)) = self.now.borrow().sees else { return Ok(()) };
        let known = self.presence_events(user).get(before..).and_then(<[bool]>::last).copied().unwrap_or(online);
        let is_there = self.gate.with_cloud(|cloud| cloud.sockets().keys().any(|id| owner(id) == "bob"));
        ensure!(known == is_there, "{user} believes that bob is there: {known}");
        Ok(())
    }

    /// A device that finds by itself what it lacks, and says that it was read.
    async fn catch(&self, n: usize, user: &str) -> bool {
        let history = self.in_group(json!({ "action": "history" }));
        let Some(page) = self.ask(n, user, &history).await else { return false };
        let Some(messages) = page["messages"].as_array().filter(|messages| !messages.is_empty()) else { return true };
        self.hold_page(user, messages);
        let read = self.in_group(json!({ "action": "read", "seq": page["last_seq"] }));
        self.ask(n, user, &read).await.is_some()
    }

    /// A device that looks at a channel: what it lacks up to where it watches from is in the history.
    async fn watch(&self, n: usize, user: &str) -> bool {
        let Some(watching) = self.ask(n, user, &self.in_group(json!({ "action": "watch" }))).await else {
            return false;
        };
        // Refused: they are no member any more.
        if watching.is_null() {
            return true;
        }
        let Some(page) = self.ask(n, user, &self.in_group(json!({ "action": "history" }))).await else { return false };
        // Entries behind that one need an event.
        let before = page["messages"].as_array().into_iter().flatten();
        for message in before.filter(|message| number(message, "seq") <= number(&watching, "last_seq")) {
            self.hold(user, message);
        }
        true
    }

    async fn set(&self, n: usize, doing: Doing) -> bool {
        let (user, mut frame) = match doing {
            Doing::Block(user, other) => (user, json!({ "user_id": other, "set": { "blocked": true } })),
            Doing::Unblock(user, other) => (user, json!({ "user_id": other, "set": { "blocked": false } })),
            Doing::Mark(user) => (user, self.in_group(json!({ "set": { "unread": true } }))),
            other => unreachable!("{other:?} sets nothing"),
        };
        frame["action"] = json!("settings");
        self.ask(n, user, &frame).await.is_some()
    }

    async fn change(&self, n: usize, doing: Doing) -> bool {
        let (user, seq, id, mut frame) = match doing {
            Doing::Edit { user, seq, id } => {
                (user, seq, id, self.with_data(id, json!({ "action": "edit", "body": id })))
            }
            Doing::Delete { user, seq, id } => (user, seq, id, json!({ "action": "delete" })),
            Doing::React { user, seq, id } => (user, seq, id, json!({ "action": "react", "emoji": id })),
            Doing::Pin { user, seq, id, pinned } => (user, seq, id, json!({ "action": "pin", "pinned": pinned })),
            other => unreachable!("{other:?} changes no message"),
        };
        frame["conversation_id"] = self.conversation();
        frame["seq"] = json!(seq);
        frame["client_msg_id"] = json!(id);
        let Some(result) = self.ask(n, user, &frame).await else { return false };
        if !result.is_null() {
            self.now.borrow_mut().sent.push((user, id, result));
        }
        true
    }

    /// Delivers all writes that are not delivered yet. Reports whether nothing must be delivered again.
    async fn hand_on(&self, n: usize) -> bool {
        let records = self.now.borrow().records.clone();
        let batch = stream::batch(records.iter().skip(self.now.borrow().handed_on).cloned().collect());
        let done = batch["Records"] == json!([]) || self.functions(n).notify(batch).await == json!([]);
        if done {
            let mut state = self.now.borrow_mut();
            state.handed_on = state.handed_on.max(records.len());
        }
        done
    }

    async fn connect(&self, n: usize, user: &str, connection: &str) -> bool {
        let event = self.event(user, connection, "$connect", "CONNECT");
        let response = self.functions(n).handle("connect", event).await.unwrap();
        if response.status_code == 403 && self.may_refuse() {
            return true;
        }
        if response.status_code != 200 {
            return false;
        }
        self.gate.pass(n, "socket opens", vec![socket_touch(connection, true)]).await;
        self.gate.with_cloud(|cloud| cloud.socket_open(connection));
        true
    }

    /// Suspends a user. After a successful reply the user has no connection that a query finds, and gets none.
    async fn suspend(&self, n: usize, user: &str) -> bool {
        let until = "2099-01-01T00:00:00Z";
        self.operate(n, &json!({ "op": "suspend", "user_id": user, "until": until })).await
    }

    /// Erases a user. Each save of the job is the next record of the stream, which comes until the job has ended.
    async fn erase(&self, n: usize, user: &str) -> bool {
        let Some(begun) = self.operated(n, &json!({ "op": "erase", "user_id": user })).await else { return false };
        let job = format!("job {}", begun["job_id"].as_str().unwrap());
        for number in 0..ERASE_RUNS_MAX {
            let rows = self.gate.with_cloud(|cloud| cloud.rows());
            let is_it = |row: &&Value| row["conversation_id"]["S"] == job.as_str();
            let row = rows["AuditTable"].iter().find(is_it).expect("the job has a row");
            if !["queued", "running"].contains(&row["state"]["S"].as_str().unwrap()) {
                return row["state"]["S"] == "done";
            }
            let keys = json!({"conversation_id": {"S": job}, "seq_version": {"S": "state"}});
            let change = json!({"Keys": keys, "SequenceNumber": number.to_string()});
            let record = json!({"eventName": "MODIFY", "dynamodb": change});
            self.functions(n).jobs(json!({ "Records": [record] })).await;
        }
        false
    }

    /// Repeats each erasure, as the stream does. Checks that no row has the users' ids or what they wrote, and that the rows
    /// of the others agree with the log.
    async fn nothing_is_left_of_the_erased(&self) -> Result<(), String> {
        let erased = self.scenario.at_once.iter().filter_map(|doing| match doing {
            Doing::Erase(user) => Some(*user),
            _ => None,
        });
        for user in erased.clone() {
            ensure!(self.erase(0, user).await, "the erasure of {user} does not end");
        }
        let rows = self.gate.with_cloud(|cloud| cloud.rows());
        let is_kept = |row: &Value| {
            let partition = row["conversation_id"]["S"].as_str().unwrap_or_default();
            partition == "ledger" || partition.starts_with("job ") || row["connection_id"]["S"] == " suspension"
        };
        for (table, row) in rows.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row))) {
            for user in erased.clone() {
                let named = row.to_string().contains(&format!("\"{user}"));
                ensure!(!named || is_kept(row), "{user} is left in {table}: {row}");
            }
        }
        let log = plain_rows(&rows["MessagesTable"]);
        for (place, row) in log.iter().enumerate() {
            ensure!(number(row, "seq") == place as u64 + 1, "the log has a hole before {row}");
            let is_theirs = string(row, "sender_id").starts_with("@gone-");
            ensure!(!is_theirs || string(row, "body").is_empty(), "a text is left: {row}");
        }
        for row in plain_rows(&rows["InboxTable"]).iter().filter(|row| row.get("last_seq").is_some()) {
            ensure!(number(row, "last_seq") == log.len() as u64, "the row is not at the end of the log: {row}");
            let (user, read) = (string(row, "user_id"), number(row, "read_seq"));
            let is_unread = |entry: &&Value| {
                string(entry, "kind") == "text"
                    && string(entry, "sender_id") != user
                    && entry.get("deleted_at").is_none()
                    && number(entry, "seq") > read
            };
            let unread = log.iter().filter(is_unread).count() as u64;
            ensure!(number(row, "unread") == unread, "{unread} are unread: {row}");
            let is_theirs = string(row, "last_sender_id").starts_with("@gone-");
            ensure!(!is_theirs || string(row, "last_preview").is_empty(), "a preview is left: {row}");
        }
        Ok(())
    }

    fn fill(&self, user: &str) -> bool {
        let row = json!({
            "user_id": { "S": user }, "connection_id": { "S": " samples" }, "api": { "S": " samples" },
            "at_1": { "N": "4102444800000" },
        });
        self.gate.with_cloud(|cloud| cloud.put("ConnectionsTable", &row));
        true
    }

    async fn operate(&self, n: usize, request: &Value) -> bool {
        self.operated(n, request).await.is_some()
    }

    /// Returns the reply to an operator; `None` if the request must be repeated.
    async fn operated(&self, n: usize, request: &Value) -> Option<Value> {
        let mut answer = self.functions(n).admin(request.clone()).await;
        self.gate.pass(n, "has its answer", Vec::new()).await;
        if answer["error"]["code"] == "gone" && self.may_be_gone() {
            return Some(Value::Null);
        }
        answer.get_mut("result").map(Value::take)
    }

    /// Reports whether a user is blocked or suspended here, so that requests of others may be refused.
    fn may_refuse(&self) -> bool {
        let mut at_once = self.scenario.at_once.iter();
        self.scenario.floods().is_some()
            || self.scenario.erases()
            || at_once.any(|doing| {
                matches!(doing, Doing::Block(..) | Doing::Unblock(..) | Doing::Suspend(_) | Doing::Manage { .. })
            })
    }

    /// Reports whether a conversation gets another epoch here.
    fn commits(&self) -> bool {
        self.scenario.at_once.iter().any(Doing::is_commit)
    }

    /// Reports whether a refusal is what the log says.
    fn is_due(&self, frame: &Value, error: &Value) -> bool {
        let tables = self.tables();
        match error["code"].as_str() {
            Some("stale_epoch") => {
                let epoch = error["epoch"].as_u64().unwrap();
                self.commits() && frame["epoch"] != epoch && epoch <= tables.epoch().map_or(0, |at| at.epoch)
            }
            Some("encryption_required") => self.commits(),
            Some("rekey_required") => {
                let left = names(&error["members"]);
                let has_left = |user: &String| tables.intervals(user).iter().any(|time| time.left.is_some());
                !left.is_empty() && left.iter().all(has_left)
            }
            _ => false,
        }
    }

    /// Reports whether a user deletes here, so that the target of a change may be gone.
    fn may_be_gone(&self) -> bool {
        let at_once = self.scenario.at_once;
        let has_media = |doing: &&Doing| matches!(doing, Doing::Carry { .. } | Doing::Refer { .. });
        let carried = at_once.iter().filter(has_media).count();
        carried > 1
            || at_once.iter().any(|doing| matches!(doing, Doing::Delete { .. } | Doing::Expire | Doing::Moderate(_)))
    }

    async fn disconnect(&self, n: usize, user: &str) -> bool {
        let connection = format!("{user}=");
        self.gate.pass(n, "socket closes", vec![socket_touch(&connection, true)]).await;
        self.gate.with_cloud(|cloud| cloud.socket_close(&connection));
        let event = self.event(user, &connection, "$disconnect", "DISCONNECT");
        self.functions(n).handle("disconnect", event).await.unwrap().status_code == 200
    }

    /// Until nothing is pending; each request acknowledges the page before.
    async fn drain(&self, n: usize, user: &str) -> bool {
        let mut drain = json!({ "action": "drain" });
        for _ in 0..PAGES_MAX {
            let Some(page) = self.ask(n, user, &drain).await else { return false };
            let messages = page["messages"].as_array().unwrap();
            self.hold_page(user, messages);
            match messages.last() {
                Some(last) => {
                    let entry = json!({ "conversation_id": last["conversation_id"], "seq": last["seq"] });
                    drain = json!({ "action": "drain", "ack": [entry] });
                }
                None => return page["more"] == false,
            }
        }
        panic!("{user}'s drain does not end")
    }

    /// The result, once it has arrived; `None` for an answer that asks to try again. Boxed: `act` would have one of them on its
    /// stack for each thing that can be done.
    fn ask<'a>(&'a self, n: usize, user: &'a str, frame: &'a Value) -> LocalBoxFuture<'a, Option<Value>> {
        Box::pin(self.asked(n, user, frame))
    }

    async fn asked(&self, n: usize, user: &str, frame: &Value) -> Option<Value> {
        let action = frame["action"].as_str().unwrap();
        let mut event = self.event(user, &format!("{user}="), action, "MESSAGE");
        event.payload.body = Some(frame.to_string());
        let mut answer = frame_of(&self.functions(n).handle(action, event).await);
        self.gate.pass(n, "has its answer", Vec::new()).await;
        let is_refused = |code: &str| answer["error"]["code"] == code;
        if ((is_refused("forbidden") || is_refused("not_member") || is_refused("gone")) && self.may_refuse())
            || (is_refused("gone") && self.may_be_gone())
        {
            return Some(Value::Null);
        }
        if self.is_due(frame, &answer["error"]) || frame["body"] == REFUSED && is_refused("rejected") {
            let id = frame["client_msg_id"].as_str().unwrap();
            if self.tables().by_client_msg_id(user, id).next().is_some() {
                self.now.borrow_mut().broken = Some(format!("{id} is stored, and refused: {answer}"));
            }
            return Some(Value::Null);
        }
        if answer["type"] == "error" && answer["error"]["retryable"] != true {
            self.now.borrow_mut().broken = Some(format!("refused: {answer}"));
        }
        (answer["type"] == "reply").then(|| answer["result"].take())
    }

    /// Copies for a user's own other devices are not promised, and may miss one that is just connecting.
    fn is_of_own_devices(&self, actor: usize, call: &AwsCall) -> bool {
        let of = &call.body()["ExpressionAttributeValues"][":user"]["S"];
        // A user whose request updates a group's members also has copies of the user's own entries.
        let all = self.scenario.before.iter().chain(self.scenario.at_once);
        let writers = all.filter(|doing| self.is_group() && doing.verb() != "connect");
        let mut users = writers.map(|doing| doing.user()).chain([self.scenario.at_once[actor].user()]);
        call.body()["TableName"] == "ConnectionsTable" && users.any(|user| *of == user)
    }

    /// Repeats the requests without a reply, or with an error that asks for it.
    async fn ask_again(&self) -> Result<(), String> {
        for (n, doing) in self.scenario.at_once.iter().enumerate() {
            if !self.now.borrow().done[n] {
                // A connection that was opening during the first try is open by now.
                if matches!(doing, Doing::Suspend(_) | Doing::Kick(_) | Doing::Ask(_)) {
                    self.clock.advance(Duration::from_mins(1));
                }
                self.act(n, *doing, &format!("3{n}")).await;
                self.look()?;
                self.unbroken()?;
                ensure!(self.now.borrow().done[n], "asked again, {doing:?} has no answer");
            }
        }
        Ok(())
    }

    /// The mapping goes on until it has handed on everything.
    async fn hand_on_the_rest(&self) -> Result<(), String> {
        if self.rows("DevicesTable").is_empty() {
            return Ok(());
        }
        loop {
            // The grace of whoever is looked at again is over by then.
            self.clock.advance(Duration::from_secs(5));
            let records = self.now.borrow().records.len();
            ensure!(self.hand_on(0).await, "handed on again, a batch still fails");
            self.look()?;
            if self.now.borrow().records.len() == records {
                return Ok(());
            }
        }
    }

    /// Reports whether the actor's second try posts what the first may not have posted.
    fn repeats(&self, actor: usize) -> bool {
        let doing = self.scenario.at_once[actor];
        !matches!(doing, Doing::Ack(..) | Doing::Read(..) | Doing::Look(_) | Doing::Drain(_) | Doing::Catch(_))
    }

    fn is_group(&self) -> bool {
        !self.now.borrow().tables.heads.is_empty()
    }

    /// Delivers the heads' stream to its end. Then each inbox row is up to date.
    async fn hand_on_all_heads(&self) -> Result<(), String> {
        if !self.is_group() {
            return Ok(());
        }
        ensure!(self.hand_on_heads(0).await, "handed on again, a batch still fails");
        self.note_frames()?;
        self.look()?;
        let is_channel = self.now.borrow().tables.is_channel();
        // A channel's members have no view: nothing is written for them.
        if !is_channel {
            self.now.borrow().tables.views_are_at_the_end()?;
        }
        // A later entry may have settled the leave.
        let all = self.now.borrow().moved.clone();
        self.functions(0).fanout(json!({ "Records": all })).await;
        self.note_frames()?;
        self.look()?;
        if is_channel { Ok(()) } else { self.now.borrow().tables.nobody_who_left_is_in_the_roster() }
    }

    /// Checks that each member who subscribes to a channel has all entries except the ones posted from that connection.
    fn who_watches_has_everything(&self) -> Result<(), String> {
        let state = self.now.borrow();
        let sockets: Vec<String> = self.gate.with_cloud(|cloud| cloud.sockets().keys().cloned().collect());
        for doing in self.scenario.before.iter().chain(self.scenario.at_once) {
            let Doing::Watch(user) = *doing else { continue };
            let is_there = sockets.iter().any(|socket| owner(socket) == user);
            if is_there && state.tables.channel_rows.iter().any(|row| row["user_id"] == user) {
                let missing: Vec<_> = state.tables.by_others(user).filter(|seq| !holds(&state, user, *seq)).collect();
                ensure!(missing.is_empty(), "{user} watches, and was never told of {missing:?}");
            }
        }
        Ok(())
    }

    fn checks(&self, actor: usize) {
        let mut state = self.now.borrow_mut();
        let row = state.tables.inbox.iter().find(|row| row["user_id"] == "bob");
        let delivered = row.map_or(0, |row| number(row, "delivered_seq"));
        state.seen_delivered.insert(actor, delivered);
        let deleted =
            state.tables.messages.iter().filter(|row| is_deleted(row)).map(|row| number(row, "seq")).collect();
        // The entries are read before the targets of edits.
        state.seen_deleted.entry(actor).or_insert(deleted);
    }

    /// Checks that no event has the text of a message that was deleted before `publish` read it.
    fn publishes(&self, actor: usize, call: &AwsCall) -> Result<(), String> {
        let deleted = self.now.borrow().seen_deleted.get(&actor).cloned().unwrap_or_default();
        for entry in call.body()["Entries"].as_array().into_iter().flatten() {
            let event: Value = serde_json::from_str(entry["MessageBody"].as_str().unwrap()).unwrap();
            let message = &event["message"];
            let of = message.get("target_seq").unwrap_or(&message["seq"]).as_u64().unwrap();
            ensure!(!deleted.contains(&of) || message["body"] == "", "{event} after its delete was seen");
        }
        Ok(())
    }

    /// Delivers the entries that are not delivered yet. Reports whether nothing must be delivered again.
    async fn hand_on_entries(&self, n: usize) -> bool {
        self.now.borrow_mut().seen_deleted.remove(&n);
        let (rows, heard) = (self.now.borrow().tables.messages.clone(), self.now.borrow().heard);
        let record = |row: &Value| {
            let keys = json!({"conversation_id": {"S": row["conversation_id"]}, "seq": {"N": row["seq"].to_string()}});
            json!({"eventName": "INSERT", "dynamodb": {"Keys": keys, "SequenceNumber": row["seq"].to_string()}})
        };
        let batch: Vec<_> = rows.iter().skip(heard).map(record).collect();
        let done = batch.is_empty() || self.functions(n).publish(batch).await == json!([]);
        if done {
            let mut state = self.now.borrow_mut();
            state.heard = state.heard.max(rows.len());
        }
        done
    }

    /// Checks, after all deliveries, that each entry has an event, in the order of the first ones.
    async fn everything_is_published(&self) -> Result<(), String> {
        if !self.scenario.at_once.iter().any(|doing| matches!(doing, Doing::Hear)) {
            return Ok(());
        }
        ensure!(self.hand_on_entries(0).await, "handed on again, a batch still fails");
        let rows = self.now.borrow().tables.messages.len() as u64;
        let published = self.gate.with_cloud(|cloud| cloud.published.clone());
        let ids: Vec<_> = published.iter().map(|entry| entry["MessageDeduplicationId"].as_str().unwrap()).collect();
        for seq in 1..=rows {
            ensure!(ids.iter().any(|id| id.ends_with(&format!(":{seq}"))), "{seq} has no event: {ids:?}");
        }
        Ok(())
    }

    /// Checks that no push is for an entry that was acknowledged before `notify` read the row.
    fn rings(&self, actor: usize) -> Result<(), String> {
        let push = self.gate.with_cloud(|cloud| cloud.sns.pushes().last().cloned()).expect("it was published");
        let seen = self.now.borrow().seen_delivered.get(&actor).copied().unwrap_or_default();
        // Another device can have received a message that is shown again silently.
        let rings = push.data()["type"] == "message" && push.data().get("quiet").is_none();
        ensure!(!rings || number(push.data(), "seq") > seen, "{} after an ack of {seen} was seen", push.says());
        Ok(())
    }

    /// Checks each user with a phone and unacknowledged messages.
    fn who_lacks_something_was_rung(&self) -> Result<(), String> {
        let devices = self.rows("DevicesTable");
        let state = self.now.borrow();
        for row in &state.tables.inbox {
            let (user, delivered) = (string(row, "user_id"), number(row, "delivered_seq"));
            let has_phone = devices.iter().any(|device| device["user_id"] == user);
            let waiting = state.tables.messages.iter().rfind(|message| {
                message["sender_id"] != user
                    && counts(message)
                    && !is_deleted(message)
                    && number(message, "seq") > delivered
            });
            let Some(newest) = waiting.filter(|_| has_phone).map(|message| number(message, "seq")) else { continue };
            let rung = self.gate.with_cloud(|cloud| {
                let mut pushes = cloud.sns.pushes().iter().map(Push::data);
                pushes.any(|data| data["type"] == "message" && number(data, "seq") >= newest)
            });
            ensure!(rung, "{user} lacks {newest}, and no phone was rung for it: {row}");
        }
        Ok(())
    }

    /// Checks each member of a channel whom an unread message mentions, from the join on.
    fn who_is_mentioned_was_rung(&self) -> Result<(), String> {
        let devices = self.rows("DevicesTable");
        let state = self.now.borrow();
        for row in &state.tables.channel_rows {
            let user = string(row, "user_id");
            let from = number(row, "read_seq").max(number(row, "joined_seq"));
            let names = |message: &&Value| {
                let named = message["mentions"].as_array().is_some_and(|all| all.contains(&Value::from(user)));
                named && message["sender_id"] != user && number(message, "seq") > from
            };
            let Some(seq) = state.tables.messages.iter().rfind(names).map(|message| number(message, "seq")) else {
                continue;
            };
            ensure!(row["mentioned_seq"] == seq, "{seq} mentions {user}: {row}");
            let rung = self.gate.with_cloud(|cloud| cloud.sns.pushes().iter().any(|push| push.data()["seq"] == seq));
            ensure!(rung || devices.is_empty(), "{seq} mentions {user}, and no phone was rung for it: {row}");
        }
        Ok(())
    }

    /// As a phone does: a ring is shown until one of the same conversation replaces it, or a clear of as much takes it away.
    fn no_phone_shows_what_was_read(&self) -> Result<(), String> {
        let mut shown = BTreeMap::new();
        self.gate.with_cloud(|cloud| {
            for push in cloud.sns.pushes() {
                let seq = number(push.data(), "seq");
                if push.data()["type"] == "message" {
                    shown.insert(push.token.clone(), seq);
                } else if shown.get(&push.token).is_some_and(|shown| *shown <= seq) {
                    shown.remove(&push.token);
                }
            }
        });
        let state = self.now.borrow();
        let mut rows = state.tables.inbox.iter().chain(&state.tables.channel_rows);
        let bobs = rows.find(|row| row["user_id"] == "bob");
        let read = bobs.map_or(0, |row| number(row, "read_seq"));
        let deleted = |seq: u64| state.tables.messages.iter().any(|one| one["seq"] == seq && is_deleted(one));
        let left: Vec<_> = shown.iter().filter(|(_, seq)| **seq <= read || deleted(**seq)).collect();
        ensure!(left.is_empty(), "read up to {read} or deleted, and still shown: {left:?}");
        let waits = bobs.is_some_and(|row| row.get("notified_seq").is_some());
        ensure!(!waits || !shown.is_empty(), "phones were rung for what waits, and show nothing: {bobs:?}");
        Ok(())
    }

    /// Checks that a token has one owner, whose device has that token.
    fn tokens_have_one_owner(&self) -> Result<(), String> {
        let rows = self.rows("DevicesTable");
        let (tokens, devices): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.get("owner_id").is_some());
        let owner_of = |device: &Value| {
            tokens.iter().any(|row| row["owner_id"] == device["user_id"] && row["owner_device"] == device["device_id"])
        };
        let names: BTreeSet<String> = devices.iter().map(|device| device["token"].to_string()).collect();
        ensure!(
            names.len() == devices.len() && tokens.len() == devices.len() && devices.iter().all(|one| owner_of(one)),
            "one owner for each token: {rows:#?}"
        );
        Ok(())
    }

    /// Checks that each connected user has every message, without another request. `gaps`: or a later one.
    fn everybody_connected_has_everything(&self, gaps: bool) -> Result<(), String> {
        self.note_frames()?;
        let rows = self.rows("ConnectionsTable");
        let sockets: Vec<String> = self.gate.with_cloud(|cloud| cloud.sockets().keys().cloned().collect());
        for socket in &sockets {
            let found = rows.iter().any(|row| row["connection_id"] == socket.as_str());
            ensure!(found, "{socket} is open and can't be found: {rows:?}");
        }
        let state = self.now.borrow();
        let connected = |user: &str| sockets.iter().any(|id| owner(id) == user);
        for row in state.tables.inbox.iter().filter(|row| connected(string(row, "user_id"))) {
            let user = string(row, "user_id");
            let owed = state.tables.owed(user).into_iter();
            // A client that has a later entry finds the gap. A reply has its own entries.
            let own = state.tables.messages.iter().filter(|entry| entry["sender_id"] == user);
            let held = state.held.get(user).into_iter().flatten().copied();
            let newest = held.chain(own.map(|entry| number(entry, "seq"))).max().filter(|_| gaps);
            let missing: Vec<_> = owed.filter(|seq| !holds(&state, user, *seq) && newest < Some(*seq)).collect();
            ensure!(missing.is_empty(), "{user} is connected and never received {missing:?}");
        }
        Ok(())
    }

    /// A row may be left, of a socket that was refused by a function that died then.
    fn nobody_suspended_is_connected(&self) -> Result<(), String> {
        for doing in self.scenario.at_once {
            let Doing::Suspend(user) = *doing else { continue };
            let open = self.gate.with_cloud(|cloud| cloud.sockets().keys().find(|id| owner(id) == user).cloned());
            ensure!(open.is_none(), "{user} is suspended and has an open socket: {open:?}");
            let watches = self.rows("WatchersTable").into_iter().find(|row| row["user_id"] == user);
            ensure!(watches.is_none(), "{user} is suspended and watches: {watches:?}");
        }
        Ok(())
    }

    /// Checks that a flooding user is connected nowhere. A connection that was opening is open by now, and a process
    /// may have died at it.
    async fn who_floods_and_goes_on_is_connected_nowhere(&self) -> Result<(), String> {
        let Some(user) = self.scenario.floods() else { return Ok(()) };
        self.clock.advance(Duration::from_mins(1));
        self.act(0, Doing::Ask(user), "4").await;
        let open = self.gate.with_cloud(|cloud| cloud.sockets().keys().find(|id| owner(id) == user).cloned());
        ensure!(open.is_none(), "{user} floods and has an open socket: {open:?}");
        Ok(())
    }

    /// Allows a connection too many after concurrent opens, because one may be missed while it is being set up. The next
    /// connection closes it.
    fn nobody_has_too_many_sockets(&self, user: &str) -> Result<(), String> {
        let of_user = |id: &&String| owner(id) == user;
        let open: Vec<String> = self.gate.with_cloud(|cloud| cloud.sockets().keys().filter(of_user).cloned().collect());
        let max = self.scenario.connections_max;
        ensure!(open.len() <= max, "{user} may have {max} connections, and has {open:?}");
        Ok(())
    }

    /// Checks that each connected author got a receipt for the mark of the other user, or for a later one.
    fn senders_have_their_ticks(&self) -> Result<(), String> {
        let sockets = self.gate.with_cloud(|cloud| cloud.sockets().clone());
        for doing in self.scenario.at_once {
            let (user, seq, types) = match *doing {
                Doing::Ack(user, seq) => (user, seq, ["receipt.delivered", "receipt.read"]),
                Doing::Read(user, seq) => (user, seq, ["receipt.read"; 2]),
                // A user who blocks the writer gets no marks.
                Doing::Fuse { from, read, .. } if !self.may_refuse() => (from, read, ["receipt.read"; 2]),
                _ => continue,
            };
            let marks = |frame: &Value| {
                let mut marks = frame["marks"].as_array().into_iter().flatten();
                marks.any(|mark| mark["user_id"] == user && number(mark, "read_seq") >= seq)
            };
            let tells = |frame: &Value| {
                let is_receipt = types.contains(&string(frame, "type"));
                marks(frame) || is_receipt && frame["user_id"] == user && number(frame, "seq") >= seq
            };
            let mut others = sockets.iter().filter(|(connection, _)| owner(connection) != user);
            let untold = others.find(|(_, frames)| !frames.iter().any(tells));
            ensure!(untold.is_none(), "{doing:?} was never told to {untold:?}");
        }
        Ok(())
    }

    /// A reconnect, after which nothing may be pending, and the history says what is stored.
    async fn come_back(&self, user: &'static str) -> Result<(), String> {
        self.act(0, Doing::Connect(user), "4").await;
        self.note_frames()?;
        self.look()?;
        self.unbroken()?;
        let Some((messages, conversation)) = self.received_all(user)? else { return Ok(()) };
        let history = self.ask(0, user, &json!({ "action": "history", "conversation_id": conversation })).await;
        let told = history.map(|mut history| history["messages"].take()).unwrap_or_default();
        for shown in told.as_array().into_iter().flatten() {
            let is_hidden = shown["target_seq"].as_u64().is_some_and(|target| {
                self.is_group() && !history_of(&self.now.borrow().tables, user).contains(&target)
            });
            self.is_of_their_time(user, shown)?;
            let is_hidden = is_hidden || self.is_group() && self.tables().is_changed_after_leave(user, shown);
            ensure!(
                is_hidden || is_as_stored(&messages, shown),
                "{user}'s history has {shown}, stored is {messages:#?}"
            );
        }
        let ids = |messages: &[Value]| -> Vec<_> {
            messages.iter().map(|message| (number(message, "seq"), string(message, "message_id").to_owned())).collect()
        };
        let told = told.as_array().map(|told| ids(told)).unwrap_or_default();
        if self.is_group() {
            let seen = history_of(&self.now.borrow().tables, user);
            let told: BTreeSet<u64> = told.into_iter().map(|(seq, _)| seq).collect();
            ensure!(told == seen, "{user}'s history is {told:?}, and they see {seen:?}");
            return Ok(());
        }
        ensure!(told == ids(&messages), "{user}'s history is {told:?}, stored is {messages:#?}");
        Ok(())
    }

    /// That nothing waits for the user and nothing is missing: the messages that are stored, and their conversation.
    fn received_all(&self, user: &'static str) -> Result<Option<(Vec<Value>, Value)>, String> {
        let state = self.now.borrow();
        let Some(row) = state.tables.inbox.iter().find(|row| row["user_id"] == user) else { return Ok(None) };
        ensure!(row.get("pending_since").is_none(), "drained, and still pending: {row}");
        let owed = state.tables.owed(user).into_iter();
        let missing: Vec<_> = owed.filter(|seq| !holds(&state, user, *seq)).collect();
        ensure!(missing.is_empty(), "{user} drained and never received {missing:?}");
        Ok(Some((state.tables.messages.clone(), row["conversation_id"].clone())))
    }

    /// Each `client_msg_id` is one message, and all its answers say the same.
    fn exactly_once(&self) -> Result<(), String> {
        let state = self.now.borrow();
        let mut commits = self.scenario.at_once.iter().filter(|doing| doing.is_commit());
        let committed = commits.any(|doing| {
            doing.entry().is_some_and(|(user, id)| state.tables.by_client_msg_id(user, id).next().is_some())
        });
        // A change of the members takes away what made the commit possible, and so does the end of its file.
        let takes = |doing: &Doing| matches!(doing, Doing::Manage { .. } | Doing::Expire);
        let changes = self.scenario.at_once.iter().any(takes);
        ensure!(committed || changes || !self.commits(), "of all commits none is stored");
        self.published_once_in_order(&state.tables)?;
        let doings = self.scenario.before.iter().chain(self.scenario.at_once);
        for doing in doings {
            let Some((from, id)) = doing.entry() else { continue };
            let stored: Vec<_> = state.tables.by_client_msg_id(from, id).collect();
            if id == REFUSED {
                ensure!(stored.is_empty(), "what the filter refused is stored");
                continue;
            }
            // A refused request is not stored, and a stored one is never refused.
            if stored.is_empty() && (self.may_refuse() || self.may_be_gone() || self.commits() || self.must_rekey()) {
                ensure!(
                    !state.sent.iter().any(|(sender, sent, _)| (*sender, *sent) == (from, id)),
                    "{id} was answered"
                );
                continue;
            }
            ensure!(stored.len() == 1, "exactly once: {id} is stored {} times", stored.len());
            let answers = || state.sent.iter().filter(|(sender, sent, _)| (*sender, *sent) == (from, id));
            let message = stored[0];
            // A user who is no member gets the place of the deleted message.
            let told = |answer: &Value| if answer["seq"] == message["target_seq"] { "target_seq" } else { "seq" };
            let same = |answer: &Value| {
                answer["seq"] == message[told(answer)]
                    && (told(answer) == "target_seq" || answer["message_id"] == message["message_id"])
            };
            ensure!(answers().all(|(.., answer)| same(answer)), "answers differ from {message}: {:?}", state.sent);
            let firsts = answers().filter(|(.., answer)| answer["duplicate"] == false).count();
            ensure!(firsts <= 1, "{id} was the first {firsts} times: {:?}", state.sent);
        }
        Ok(())
    }

    /// Checks the order of the queue's messages too, and that none is a dead letter.
    fn published_once_in_order(&self, tables: &Tables) -> Result<(), String> {
        for doing in self.scenario.before.iter().chain(self.scenario.at_once) {
            let ids = match doing {
                Doing::Publish(ids) => *ids,
                Doing::Tell(id) => std::slice::from_ref(id),
                _ => continue,
            };
            let seqs =
                |id: &&str| tables.by_client_msg_id(SERVICE, id).map(|row| number(row, "seq")).collect::<Vec<_>>();
            let stored: Vec<_> = ids.iter().map(seqs).collect();
            ensure!(stored.iter().all(|seqs| seqs.len() == 1), "exactly once: {ids:?} are {stored:?}");
            ensure!(stored.is_sorted(), "in their order: {ids:?} are {stored:?}");
        }
        let dead = self.gate.with_cloud(|cloud| cloud.dead_letters.clone());
        ensure!(dead.is_empty(), "dead letters: {dead:?}");
        Ok(())
    }

    /// Checks that the list of a user's connections records each block of the two users' rows, and no other.
    fn blocks_are_counted(&self) -> Result<(), String> {
        let inbox = self.rows("InboxTable");
        let rows = self.rows("ConnectionsTable");
        let counts = rows.iter().filter(|row| row["connection_id"] == " blocks");
        let counted: BTreeMap<&str, u64> = counts.map(|row| (string(row, "user_id"), number(row, "blocks"))).collect();
        let mut blocks = BTreeMap::<&str, u64>::new();
        for row in &inbox {
            let of_row = ["blocked", "blocked_by_peer"].iter().filter(|name| row.get(**name).is_some()).count() as u64;
            if of_row > 0 {
                *blocks.entry(string(row, "user_id")).or_default() += of_row;
            }
            ensure!(of_row > 0 || row.as_object().is_some_and(|row| row.len() > 4), "what is left of a block: {row}");
        }
        ensure!(counted == blocks, "blocks are counted as {counted:?}, and the rows have {blocks:?}");
        Ok(())
    }

    /// Notes what is stored, and checks it.
    fn look(&self) -> Result<(), String> {
        self.tokens_have_one_owner()?;
        self.blocks_are_counted()?;
        let (tables, inbox) = (self.tables(), self.gate.with_cloud(|cloud| cloud.scan("InboxTable")));
        let mut state = self.now.borrow_mut();
        for head in tables.heads.iter().filter(|head| !state.tables.heads.contains(head)).cloned().collect::<Vec<_>>() {
            let keys = json!({ "conversation_id": { "S": head["conversation_id"] } });
            let number = state.moved.len().to_string();
            state.moved.push(json!({ "dynamodb": { "Keys": keys, "SequenceNumber": number } }));
        }
        let State { records, inbox: before, .. } = &mut *state;
        for row in inbox.iter().filter(|row| !before.contains(row)) {
            let old = before.iter().find(|old| ["user_id", "conversation_id"].iter().all(|key| old[*key] == row[*key]));
            let keys = json!({ "user_id": row["user_id"], "conversation_id": row["conversation_id"] });
            let mut images = json!({ "Keys": keys, "NewImage": row, "SequenceNumber": records.len().to_string() });
            if let Some(old) = old {
                images["OldImage"] = old.clone();
            }
            records.push(json!({ "dynamodb": images }));
        }
        state.inbox = inbox;
        self.look_at_media(&tables, &mut state)?;
        tables.check(&state.tables, &state.held)?;
        state.tables = tables;
        Ok(())
    }

    fn unbroken(&self) -> Result<(), String> {
        self.now.borrow().broken.clone().map_or(Ok(()), Err)
    }

    fn tables(&self) -> Tables {
        let mut messages = self.rows("MessagesTable");
        messages.sort_by_key(|message| number(message, "seq"));
        let (channel_rows, rows): (Vec<_>, Vec<_>) =
            self.rows("InboxTable").into_iter().partition(|row| row.get("read_counted").is_some());
        let (inbox, settings): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.get("last_seq").is_some());
        let blocked = settings.iter().chain(&inbox).any(|row| row.get("blocked").is_some());
        let (heads, members) = (self.rows("ConversationsTable"), self.rows("MembersTable"));
        let (idempotency, epochs) = (self.rows("IdempotencyTable"), self.rows("EpochsTable"));
        Tables { messages, idempotency, epochs, inbox, channel_rows, blocked, heads, members }
    }

    fn rows(&self, table: &str) -> Vec<Value> {
        self.gate.with_cloud(|cloud| cloud.scan(table).iter().map(plain_item).collect())
    }

    /// Records a frame from a socket. Its message must be stored already.
    fn received(&self, connection: &str, frame: &Value) -> Result<(), String> {
        if frame["type"] == "messages.new" {
            let tables = self.tables();
            for message in frame["messages"].as_array().into_iter().flatten() {
                let stored = tables.messages.iter().find(|row| row["seq"] == message["seq"]);
                ensure!(
                    stored.is_some_and(|row| row["message_id"] == message["message_id"]),
                    "durable before delivered: {frame} is not stored"
                );
                self.hold(owner(connection), message);
                self.is_of_their_time(owner(connection), message)?;
            }
        }
        Ok(())
    }

    /// Checks the entry against the user's memberships: the user may have left the group.
    fn is_of_their_time(&self, user: &str, shown: &Value) -> Result<(), String> {
        let tables = self.tables();
        if tables.heads.is_empty() || tables.is_channel() { Ok(()) } else { tables.is_of_their_time(user, shown) }
    }

    /// Records a page of a reply.
    fn hold_page(&self, user: &str, messages: &[Value]) {
        for message in messages {
            if let Err(broken) = self.is_of_their_time(user, message) {
                self.now.borrow_mut().broken = Some(broken);
            }
            self.hold(user, message);
        }
    }

    /// While the gate is open, [`Model::after`] is not called for each frame, so all frames are looked at again.
    fn note_frames(&self) -> Result<(), String> {
        let sockets = self.gate.with_cloud(|cloud| cloud.sockets().clone());
        for (connection, frames) in &sockets {
            for frame in frames {
                self.received(connection, frame)?;
            }
        }
        Ok(())
    }

    fn hold(&self, user: &str, message: &Value) {
        self.now.borrow_mut().held.entry(user.to_owned()).or_default().insert(number(message, "seq"));
    }

    fn conversation(&self) -> Value {
        let state = self.now.borrow();
        let of_group = state.tables.heads.first().or(state.tables.inbox.first());
        of_group.map(|row| row["conversation_id"].clone()).expect("there is a conversation")
    }

    fn event(&self, user: &str, connection: &str, route: &str, kind: &str) -> InvocationEvent {
        let now = self.clock.now().millis();
        let event = json!({
            "requestContext": {
                "routeKey": route, "eventType": kind, "connectionId": connection,
                "requestId": if self.scenario.is_sampled() { "r25" } else { "r" },
                "connectedAt": now, "requestTimeEpoch": now,
                "authorizer": { "principalId": user, "exp": "4102444800", "device_id": "phone" },
            },
            "isBase64Encoded": false,
        });
        LambdaEvent::new(serde_json::from_value(event).expect("the event parses"), Context::default())
    }

    /// Returns processes that have just started, or that have posted to all connections that existed when the actors
    /// began. Boxed: each step that waits for one of them would have all on its stack.
    fn functions(&self, n: usize) -> Box<InProcess> {
        let functions = Box::new(self.functions[n].restarted());
        let InitialState { sockets, connected_at, .. } = &*self.initial.borrow();
        for connection in sockets.keys().filter(|_| self.scenario.remembering) {
            functions.remember(owner(connection), connection, *connected_at);
        }
        functions
    }
}

/// Whether an entry is shown as it is stored; an edit, as what it is about.
fn is_as_stored(stored: &[Value], shown: &Value) -> bool {
    let of = |seq: &Value| stored.iter().find(|row| row["seq"] == *seq);
    let Some(row) = of(&shown["seq"]) else { return false };
    let text = if row["kind"] == "edit" { of(&row["target_seq"]) } else { Some(row) };
    text.is_some_and(|text| shown["body"] == text["body"])
        && shown.get("deleted_by") == row.get("deleted_by")
        && reactions(shown) == row["reactions"].as_object().map_or(0, serde_json::Map::len) as u64
}

/// How many members are shown to have reacted.
fn reactions(shown: &Value) -> u64 {
    shown["reactions"].as_array().into_iter().flatten().map(|reaction| number(reaction, "count")).sum()
}

/// In groups: rows that are only written if they are still so, and what ticks go by.
fn may_be_stale(call: &AwsCall) -> bool {
    match call.operation() {
        "BatchGetItem" => call.body()["RequestItems"].get("InboxTable").is_some(),
        "GetItem" => call.body()["TableName"] == "ConversationsTable",
        _ => call.body()["ProjectionExpression"] == "sender_id",
    }
}

fn owner(connection: &str) -> &str {
    connection.split('=').next().unwrap_or_default()
}

fn holds(state: &State, user: &str, seq: u64) -> bool {
    state.held.get(user).is_some_and(|held| held.contains(&seq))
}
