//! Runs actors concurrently, in every order of their calls.
//!
//! An actor is a future whose calls wait at a [`Gate`]. When all actors wait, the gate passes one call, and so on until
//! every actor has finished. The search is depth first and stores only the choices. Each schedule runs from the
//! beginning, and the next one differs in the last choice that has an untried alternative.
//!
//! Two calls of different actors that touch no common place lead to the same state in either order. Orders that
//! differ only in such calls run once (sleep sets: Godefroid, "Partial-Order Methods for the Verification of Concurrent
//! Systems", 1996).

use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::gate::{Candidate, Gate, Passed};
use crate::schedule::Step;
use crate::{AwsCall, Fault};

/// A process that makes calls.
pub struct Actor {
    pub name: String,
    pub run: Pin<Box<dyn Future<Output = ()>>>,
}

/// The system that is explored.
pub trait Model {
    /// Resets everything to the beginning, and creates the actors. Their behaviour must follow from the order of their
    /// calls alone.
    fn begin(&self) -> Vec<Actor>;

    /// Checks the invariants after each step.
    ///
    /// # Errors
    /// The broken invariant.
    fn after(&self, passed: &Passed) -> Result<(), String>;

    /// Checks the final state, after every actor has finished. Calls no longer wait.
    ///
    /// # Errors
    /// The broken invariant.
    fn end(&self, faults: &[Step]) -> impl Future<Output = Result<(), String>>;
}

/// A fault, at most one in each schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    None,
    /// An actor is killed at one of its calls.
    Kill,
    /// A call meets a transaction at work on the same item.
    Conflict,
    /// A call, or the answer to one, is lost, late, throttled or failed.
    Failure,
    /// Part of a transaction does not show for a while.
    HalfSeen,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Explored {
    /// How many orders were run to their end.
    pub schedules: usize,
    /// Number of runs that ended early, since they led to known states.
    pub redundant: usize,
    /// The longest, in steps.
    pub steps_max: usize,
    /// Whether the bound was reached before the end.
    pub bounded: bool,
}

/// A schedule in which something does not hold.
pub struct Counterexample {
    pub steps: Vec<Step>,
    trace: Vec<String>,
    broken: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, line) in self.trace.iter().enumerate() {
            writeln!(f, "  {}. {line}", n + 1)?;
        }
        write!(f, "  {}", self.broken)
    }
}

impl fmt::Debug for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How far a search goes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Runs, at most.
    pub runs_max: usize,
    /// Whether to see every state that can be reached. Otherwise it is every order of what touches the same thing, which
    /// takes far fewer runs.
    pub every_state: bool,
}

/// Goes through all orders within the bounds, and says so after each run.
///
/// # Errors
/// The first schedule in which something does not hold.
pub async fn explore(
    model: &impl Model,
    gate: &Gate,
    faults: Faults,
    bounds: Bounds,
    ran: impl Fn(),
) -> Result<Explored, Counterexample> {
    let mut path = Path::new(bounds.every_state);
    let mut explored = Explored::default();
    loop {
        match run_schedule(model, gate, faults, &mut path).await? {
            Ended::AtTheEnd(steps) => {
                explored.schedules += 1;
                explored.steps_max = explored.steps_max.max(steps);
            }
            Ended::Redundant => explored.redundant += 1,
        }
        ran();
        if !path.advance() {
            return Ok(explored);
        }
        if explored.schedules + explored.redundant >= bounds.runs_max {
            explored.bounded = true;
            return Ok(explored);
        }
    }
}

/// Runs one schedule. Where it says nothing more, the first call that waits is let through.
///
/// # Errors
/// The schedule as it went, if something does not hold.
pub async fn replay(model: &impl Model, gate: &Gate, steps: &[Step]) -> Result<(), Counterexample> {
    run_schedule(model, gate, Faults::None, &mut Script(steps.iter().copied())).await.map(drop)
}

/// Decides what comes next.
trait Choose {
    /// `None`: nothing here leads anywhere new.
    fn choose(&mut self, options: Vec<Choice>) -> Option<Choice>;

    /// Whether calls may also fail in ways that `faults` does not name.
    const ANY_FAULT: bool;
}

/// A call that waits, and what becomes of it.
#[derive(Debug, Clone)]
struct Choice {
    step: Step,
    candidate: Candidate,
}

impl Choice {
    fn is(&self, other: &Self) -> bool {
        (self.candidate.id, self.step.fault) == (other.candidate.id, other.step.fault)
    }

    /// Reports whether the two choices can swap. An actor's concurrent reads count as one step. The limit of one fault
    /// per schedule does not matter: two faults come in neither order.
    fn commutes(&self, other: &Self) -> bool {
        if self.step.actor == other.step.actor {
            return self.candidate.reads() && other.candidate.reads();
        }
        // A fault that hides a write hides it from all actors.
        if [self, other].into_iter().any(|choice| choice.step.fault.is_some_and(Fault::shows_half)) {
            return false;
        }
        let arrives = matches!(self.step.fault, None | Some(Fault::ReplyLost | Fault::Conflict));
        !(arrives && self.candidate.meets(&other.candidate))
    }
}

/// The choices of one schedule, with what was tried instead and what is still to be.
struct Path {
    nodes: Vec<Node>,
    depth: usize,
    /// Whether to try everything everywhere, or only what can make a difference.
    every_state: bool,
}

struct Node {
    options: Vec<Choice>,
    /// The places of what was tried. The last is what is tried now.
    tried: Vec<usize>,
    /// The calls that are to be tried here, by id.
    due: BTreeSet<u64>,
    /// Choices that lead where they led from higher up.
    asleep: Vec<Choice>,
}

impl Node {
    fn chosen(&self) -> &Choice {
        &self.options[*self.tried.last().expect("a node is made for a choice")]
    }

    fn sleeps(&self, choice: &Choice) -> bool {
        self.asleep.iter().any(|sleeper| sleeper.is(choice))
    }

    fn offers(&self, call: u64) -> bool {
        self.options.iter().any(|choice| choice.candidate.id == call)
    }

    /// Returns the choices to skip after this one: those tried here before, or higher up, that are independent of it.
    fn asleep_after(&self) -> Vec<Choice> {
        let (chosen, tried) = (self.chosen(), self.tried.iter().rev().skip(1).map(|n| &self.options[*n]));
        self.asleep.iter().chain(tried).filter(|choice| chosen.commutes(choice)).cloned().collect()
    }

    /// Goes on to something that is due. `false`: nothing is.
    fn try_next(&mut self) -> bool {
        let due = |choice: &Choice| self.due.contains(&choice.candidate.id) && !self.sleeps(choice);
        let next = (0..self.options.len()).find(|n| !self.tried.contains(n) && due(&self.options[*n]));
        self.tried.extend(next);
        next.is_some()
    }
}

impl Choose for Path {
    const ANY_FAULT: bool = false;

    fn choose(&mut self, options: Vec<Choice>) -> Option<Choice> {
        if let Some(node) = self.nodes.get(self.depth) {
            let same = node.options.iter().map(|choice| choice.step).eq(options.iter().map(|choice| choice.step));
            assert!(same, "the same choices led elsewhere: {options:?} and not {:?}", node.options);
        } else {
            let asleep = self.nodes.last().map(Node::asleep_after).unwrap_or_default();
            let mut node = Node { options, tried: Vec::new(), due: BTreeSet::new(), asleep };
            let awake = node.options.iter().filter(|choice| !node.sleeps(choice)).map(|choice| choice.candidate.id);
            let due: BTreeSet<_> = if self.every_state { awake.collect() } else { awake.take(1).collect() };
            node.due = due;
            if !node.try_next() {
                return None;
            }
            self.nodes.push(node);
        }
        let node = &self.nodes[self.depth];
        self.depth += 1;
        Some(node.chosen().clone())
    }
}

impl Path {
    fn new(every_state: bool) -> Self {
        Self { nodes: Vec::new(), depth: 0, every_state }
    }

    /// To the last choice that has something left to try. `false`: there is none.
    fn advance(&mut self) -> bool {
        self.reverse_races();
        self.depth = 0;
        while let Some(node) = self.nodes.last_mut() {
            if node.try_next() {
                return true;
            }
            self.nodes.pop();
        }
        false
    }

    /// Schedules the reverse of each race: two steps whose order matters, and that neither their actor nor a step in
    /// between forces. (Source sets: Abdulla, Aronis, Jonsson, Sagonas, "Optimal dynamic partial order reduction",
    /// 2014.)
    fn reverse_races(&mut self) {
        // By step, those that had to come before it, as bits.
        let mut causes: Vec<u128> = Vec::with_capacity(self.nodes.len());
        assert!(self.nodes.len() <= 128, "a schedule of more steps than there are bits");
        for later in 0..self.nodes.len() {
            let before: Vec<_> = (0..later).filter(|earlier| self.ordered(*earlier, later)).collect();
            causes.push(before.iter().fold(0, |all, earlier| all | 1 << earlier | causes[*earlier]));
            for earlier in before.iter().copied() {
                let indirect = before.iter().any(|between| causes[*between] & 1 << earlier != 0);
                let at_once = self.nodes[earlier].offers(self.nodes[later].chosen().candidate.id);
                if !indirect && (at_once || self.actor(earlier) != self.actor(later)) {
                    self.reverse(earlier, later, &causes);
                }
            }
        }
    }

    fn reverse(&mut self, earlier: usize, later: usize, causes: &[u128]) {
        // Steps up to the later one that don't depend on the earlier one; then those of them that can begin.
        let free = |n: &usize| *n == later || causes[*n] & 1 << earlier == 0;
        let instead: Vec<_> = (earlier + 1..=later).filter(free).collect();
        let among = instead.iter().fold(0, |all: u128, n| all | 1 << n);
        let first = instead.iter().filter(|n| causes[**n] & among == 0).map(|n| self.nodes[*n].chosen().candidate.id);
        let first: Vec<_> = first.filter(|call| self.nodes[earlier].offers(*call)).collect();
        let node = &mut self.nodes[earlier];
        let covered =
            |call: &u64| node.due.contains(call) || node.asleep.iter().any(|choice| choice.candidate.id == *call);
        if first.is_empty() {
            node.due.extend(node.options.iter().map(|choice| choice.candidate.id));
        } else if !first.iter().any(covered) {
            node.due.insert(first[0]);
        }
    }

    /// Whether the two steps of the schedule, one before the other, could not have come the other way round, or would
    /// have made a difference.
    fn ordered(&self, earlier: usize, later: usize) -> bool {
        let (before, after) = (self.nodes[earlier].chosen(), self.nodes[later].chosen());
        let same = before.step.actor == after.step.actor;
        if same && !self.nodes[earlier].offers(after.candidate.id) {
            return true;
        }
        let arrives = |fault: Fault| matches!(fault, Fault::ReplyLost | Fault::Conflict) || fault.shows_half();
        let gone = after.step.fault.is_some_and(|fault| !arrives(fault));
        !(before.commutes(after) || (gone && !same))
    }

    fn actor(&self, n: usize) -> usize {
        self.nodes[n].chosen().step.actor
    }
}

struct Script<I>(I);

impl<I: Iterator<Item = Step>> Choose for Script<I> {
    const ANY_FAULT: bool = true;

    fn choose(&mut self, options: Vec<Choice>) -> Option<Choice> {
        let Some(step) = self.0.next() else { return options.into_iter().next() };
        let found = options.iter().find(|choice| choice.step == step).cloned();
        let possible = || options.iter().map(|choice| choice.step.to_string()).collect::<Vec<_>>().join(", ");
        Some(found.unwrap_or_else(|| panic!("step {step} is not possible there, but only {}", possible())))
    }
}

enum Ended {
    AtTheEnd(usize),
    Redundant,
}

async fn run_schedule<C: Choose>(
    model: &impl Model,
    gate: &Gate,
    faults: Faults,
    chooser: &mut C,
) -> Result<Ended, Counterexample> {
    // The random numbers of the SDK and of the handlers must be the same each time.
    fastrand::seed(1);
    gate.set_open(false);
    let mut actors: Vec<_> = model.begin().into_iter().map(|actor| (actor.name, Some(actor.run))).collect();
    let (mut steps, mut trace) = (Vec::new(), Vec::new());
    loop {
        settle(&mut actors, gate).await;
        let ended = actors.iter().enumerate().filter(|(_, (_, running))| running.is_none());
        ended.for_each(|(n, _)| gate.ended(n));
        let failed = steps.iter().any(|step: &Step| step.fault.is_some());
        let options = options(&gate.candidates(), if failed { None } else { Some(faults) }, C::ANY_FAULT && !failed);
        if options.is_empty() {
            break;
        }
        let Some(Choice { step, candidate }) = chooser.choose(options) else { return Ok(Ended::Redundant) };
        let passed = gate.release(candidate.id, step.fault);
        let (name, running) = &mut actors[step.actor];
        if step.fault == Some(Fault::Killed) {
            *running = None;
        }
        let failed = step.fault.map(|fault| format!(": {fault}")).unwrap_or_default();
        let late = if candidate.late { ", late" } else { "" };
        steps.push(step);
        trace.push(format!("{name} {}{late}{failed}", passed.what));
        if let Err(broken) = model.after(&passed) {
            return Err(Counterexample { steps, trace, broken });
        }
    }
    gate.set_open(true);
    let faults: Vec<_> = steps.iter().filter(|step| step.fault.is_some()).copied().collect();
    match model.end(&faults).await {
        Ok(()) => Ok(Ended::AtTheEnd(steps.len())),
        Err(broken) => Err(Counterexample { steps, trace, broken: format!("in the end: {broken}") }),
    }
}

/// Everything that may come next.
fn options(candidates: &[Candidate], faults: Option<Faults>, any: bool) -> Vec<Choice> {
    let mut options = Vec::new();
    let mut mortal = BTreeSet::new();
    for candidate in candidates {
        let mut offer = |fault| {
            let step = Step { actor: candidate.actor, nth: candidate.nth, fault };
            options.push(Choice { step, candidate: candidate.clone() });
        };
        offer(None);
        if candidate.late {
            continue;
        }
        let Some(faults) = faults else { continue };
        // Once for all calls that the actor has under way: it dies with all of them.
        if (faults == Faults::Kill || any) && mortal.insert(candidate.actor) {
            offer(Some(Fault::Killed));
        }
        if (faults == Faults::Conflict && conflicts(candidate, candidates)) || any {
            offer(Some(Fault::Conflict));
        }
        if faults == Faults::Failure || any {
            for fault in failures(candidate) {
                offer(Some(*fault));
            }
        }
        if faults == Faults::HalfSeen || any {
            for fault in &candidate.half_seen {
                offer(Some(*fault));
            }
        }
    }
    // A step that touches nothing, now or in any other order, need not be tried later as well.
    if let Some(apart) = candidates.iter().find(|candidate| candidate.touches.is_empty() && !any) {
        options.retain(|choice| choice.candidate.id == apart.id);
    }
    options
}

/// Reports whether DynamoDB could refuse the call. The reason is a concurrent transaction on the same item, or a
/// call on an item of this transaction.
fn conflicts(candidate: &Candidate, all: &[Candidate]) -> bool {
    let transaction = |candidate: &Candidate| candidate.touches.len() > 1;
    let others = all.iter().filter(|other| other.actor != candidate.actor && other.writes());
    let mut dangers = others.filter(|other| transaction(candidate) || transaction(other));
    candidate.writes() && dangers.any(|other| candidate.meets(other))
}

/// How the call can fail. For a read it makes no difference whether it or its answer was lost.
fn failures(candidate: &Candidate) -> &'static [Fault] {
    match &candidate.call {
        None => &[],
        Some(AwsCall::Close { .. }) => &[Fault::Lost, Fault::ReplyLost, Fault::Status(429)],
        Some(AwsCall::Push { .. } | AwsCall::Object { .. } | AwsCall::Queue { .. }) => {
            &[Fault::Lost, Fault::ReplyLost, Fault::Throttled, Fault::Status(500)]
        }
        Some(AwsCall::Post { .. }) => &[Fault::Lost, Fault::ReplyLost, Fault::Status(410), Fault::Status(429)],
        Some(_) if candidate.writes() => {
            &[Fault::Lost, Fault::ReplyLost, Fault::Late, Fault::Throttled, Fault::Status(500), Fault::Status(503)]
        }
        Some(_) => &[Fault::Status(500)],
    }
}

type Running = (String, Option<Pin<Box<dyn Future<Output = ()>>>>);

/// Runs until each actor has reached a call or its end. A sleeping actor wakes first: sleeping and then waiting at the
/// gate is the same as a longer sleep.
async fn settle(actors: &mut [Running], gate: &Gate) {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let settled = poll_fn(|context| {
        bell.forward(context);
        let mut context = Context::from_waker(&waker);
        // An actor may have more to do in the same moment, on another of its ways.
        while bell.rung.swap(false, Ordering::SeqCst) {
            for (_, running) in actors.iter_mut() {
                if running.as_mut().is_some_and(|run| run.as_mut().poll(&mut context).is_ready()) {
                    *running = None;
                }
            }
        }
        let sleeps = |(n, (_, running)): (usize, &Running)| running.is_some() && !gate.is_waiting(n);
        if actors.iter().enumerate().any(sleeps) { Poll::Pending } else { Poll::Ready(()) }
    });
    tokio::task::unconstrained(settled).await;
}

/// Remembers a wake-up.
struct Bell {
    rung: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Default for Bell {
    fn default() -> Self {
        Self { rung: AtomicBool::new(true), outer: Mutex::default() }
    }
}

impl Bell {
    fn forward(&self, context: &Context<'_>) {
        *self.outer.lock().unwrap() = Some(context.waker().clone());
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if let Some(outer) = &*self.outer.lock().unwrap() {
            outer.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::{Actor, Bounds, Explored, Faults, Model, explore, replay};
    use crate::cloud::{Cloud, socket_touch};
    use crate::schedule::{Step, parse_steps};
    use crate::{Gate, Passed};

    /// Each actor adds one to a counter: it reads it, and writes what it read and one more. Two that share a counter lose
    /// one of the two, if both read before either writes.
    struct Counters {
        gate: Gate,
        /// By actor, which counter it adds to.
        uses: Vec<usize>,
        values: Rc<[Cell<u32>; 2]>,
    }

    impl Counters {
        fn new(uses: &[usize]) -> Self {
            Self { gate: Gate::new(Cloud::new()), uses: uses.to_vec(), values: Rc::default() }
        }

        async fn explore(&self, every_state: bool) -> Result<Explored, String> {
            let bounds = Bounds { runs_max: usize::MAX, every_state };
            let explored = explore(self, &self.gate, Faults::None, bounds, || {}).await;
            explored.map_err(|broken| broken.steps.iter().map(Step::to_string).collect::<Vec<_>>().join(","))
        }
    }

    impl Model for Counters {
        fn begin(&self) -> Vec<Actor> {
            self.values.iter().for_each(|value| value.set(0));
            let actor = |(n, counter): (usize, &usize)| {
                let (gate, values, counter) = (self.gate.clone(), Rc::clone(&self.values), *counter);
                let run = async move {
                    let touch = |writes| vec![socket_touch(&counter.to_string(), writes)];
                    gate.pass(n, "reads", touch(false)).await;
                    let read = values[counter].get();
                    gate.pass(n, "writes", touch(true)).await;
                    values[counter].set(read + 1);
                };
                Actor { name: n.to_string(), run: Box::pin(run) }
            };
            self.uses.iter().enumerate().map(actor).collect()
        }

        fn after(&self, _: &Passed) -> Result<(), String> {
            Ok(())
        }

        async fn end(&self, _: &[Step]) -> Result<(), String> {
            let sum: u32 = self.values.iter().map(Cell::get).sum();
            if sum as usize == self.uses.len() { Ok(()) } else { Err(format!("the sum is {sum}")) }
        }
    }

    #[tokio::test]
    async fn what_is_lost_in_one_order_is_found_and_can_be_run_again() {
        let shared = Counters::new(&[0, 0]);
        for every_state in [false, true] {
            let steps = shared.explore(every_state).await.unwrap_err();
            let steps = parse_steps(&steps).unwrap();
            assert!(replay(&shared, &shared.gate, &steps).await.is_err());
        }
        assert!(replay(&shared, &shared.gate, &parse_steps("0,0,1,1").unwrap()).await.is_ok());
        let broken = replay(&shared, &shared.gate, &parse_steps("0,1,0,1").unwrap()).await.unwrap_err();
        let trace = "  1. 0 reads\n  2. 1 reads\n  3. 0 writes\n  4. 1 writes\n  in the end: the sum is 1";
        assert_eq!(broken.to_string(), trace);
    }

    #[tokio::test]
    async fn orders_that_make_no_difference_are_run_once() {
        let apart = Counters::new(&[0, 1]);
        for every_state in [false, true] {
            assert_eq!(apart.explore(every_state).await.unwrap().schedules, 1);
        }
    }
}
