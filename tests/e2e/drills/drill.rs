//! A server with a failure, users who chat meanwhile, and the counts that CloudWatch would have.
//!
//! Our own metrics come from the functions' lines, by their `_aws`. AWS's metrics come from the local server, and those
//! of DynamoDB from the replies of the proxy before it. `tools/scripts/alarms.py` decides by the template whether an
//! alarm fires. A period lasts as long as its events, and counts for every alarm, whatever its length in the template.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use local::{Options, Queue};
use serde_json::{Value, json};
use template::workspace_root;
use testkit::{AwsCall, ConnectError, Fault, Frame, PATIENCE, Phone, Proxy, TestServer};
use tokio::time::timeout;

/// One more than a number of failures that no alarm minds.
pub(crate) const MESSAGES: usize = 6;
/// Enough requests that a single function's failures stay below a fifth of all.
const PINGS: usize = 60;

type Faults = Box<dyn FnMut(&str, &AwsCall) -> Option<Fault> + Send>;

pub(crate) struct Drill {
    pub(crate) server: Arc<TestServer>,
    _proxy: Proxy,
    faults: Arc<Mutex<Option<Faults>>>,
    throttled: Arc<Mutex<Counts>>,
    pub(crate) alice: Phone,
    pub(crate) bob: Phone,
    /// The last message that was stored: its conversation and its number.
    last: Option<(String, u64)>,
    sent: usize,
    /// Up to the end of the last period.
    counted: Counts,
    periods: Vec<Counts>,
}

/// The namespace, the name and the dimensions of a metric.
type Metric = (String, String, BTreeMap<String, String>);
/// The samples of each metric, in their order.
type Counts = BTreeMap<Metric, Vec<u64>>;

impl Drill {
    /// On a server on which one period has passed already, in which all was well.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server with changed options.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let (faults, throttled) = (Arc::new(Mutex::new(None::<Faults>)), Arc::new(Mutex::new(Counts::new())));
        let proxy = Proxy::open({
            let (faults, throttled) = (Arc::clone(&faults), Arc::clone(&throttled));
            move |function, call| {
                let fault = faults.lock().unwrap().as_mut().and_then(|faults| faults(function, call));
                if matches!(fault, Some(Fault::Throttled | Fault::Cancelled(&["ThrottlingError"]))) {
                    count(&mut throttled.lock().unwrap(), throttle_of(call), 1);
                }
                fault
            }
        })
        .await;
        let server = proxy.server_with(change).await;
        let (alice, bob) = (server.phone("alice").await, server.phone("bob").await);
        let (last, sent, counted, periods) = (None, 0, Counts::new(), Vec::new());
        let mut drill = Self { server, _proxy: proxy, faults, throttled, alice, bob, last, sent, counted, periods };
        drill.all_is_well(1).await;
        drill
    }

    /// From now on these calls to AWS go wrong.
    pub(crate) fn break_calls(&self, faults: impl FnMut(&str, &AwsCall) -> Option<Fault> + Send + 'static) {
        *self.faults.lock().unwrap() = Some(Box::new(faults));
    }

    /// From now on none does.
    pub(crate) fn repair_calls(&self) {
        *self.faults.lock().unwrap() = None;
    }

    /// Runs this many periods without a failed request.
    pub(crate) async fn all_is_well(&mut self, periods: usize) {
        for _ in 0..periods {
            assert_eq!(self.connect("carol").await.err(), None);
            assert_eq!(self.chat().await, Vec::<Frame>::new(), "all was repaired");
            self.end_period().await;
        }
    }

    /// Runs this many periods in which users chat, and a user connects, whatever the outcome.
    pub(crate) async fn periods(&mut self, periods: usize) {
        for _ in 0..periods {
            let _ = self.connect("carol").await;
            self.chat().await;
            self.end_period().await;
        }
    }

    /// Connects a user, and disconnects.
    pub(crate) async fn connect(&self, user: &str) -> Result<(), ConnectError> {
        self.server.connect(&self.server.token(user)).await?.leave().await;
        Ok(())
    }

    /// Alice writes, bob acknowledges, and both send other requests. Returns the replies that are errors.
    pub(crate) async fn chat(&mut self) -> Vec<Frame> {
        let mut answers = Vec::new();
        for _ in 0..MESSAGES {
            self.sent += 1;
            let send = json!({"action": "send", "to": "bob", "client_msg_id": self.sent.to_string(), "kind": "text", "body": "hi"});
            let answer = ask(&mut self.alice, send).await;
            let result = &answer["result"];
            if let (Some(conversation), Some(seq)) = (result["conversation_id"].as_str(), result["seq"].as_u64()) {
                self.last = Some((conversation.to_owned(), seq));
            }
            answers.push(answer);
            if let Some((conversation, seq)) = &self.last {
                let up_to = json!({"conversation_id": conversation, "seq": seq});
                answers.push(ask(&mut self.bob, json!({"action": "ack", "up_to": [up_to]})).await);
                let read = json!({"action": "read", "conversation_id": conversation, "seq": seq});
                answers.push(ask(&mut self.bob, read).await);
            }
        }
        answers.push(ask(&mut self.bob, json!({"action": "drain"})).await);
        answers.push(ask(&mut self.bob, json!({"action": "inbox"})).await);
        for _ in 0..PINGS {
            answers.push(ask(&mut self.alice, json!({"action": "ping"})).await);
        }
        answers.retain(|answer| answer["type"] != "reply");
        answers
    }

    /// Notes what was counted since the last period.
    pub(crate) async fn end_period(&mut self) {
        let now = timeout(PATIENCE, self.settled()).await.expect("each event that was answered has its line");
        let since = now.iter().map(|(metric, samples)| {
            let before = self.counted.get(metric).map_or(0, Vec::len);
            (metric.clone(), samples[before..].to_vec())
        });
        let mut since: Counts = since.filter(|(_, samples)| !samples.is_empty()).collect();
        // A queue counts what is in it, and not what came in.
        for (stream, queue) in [
            ("GroupStream", "FanoutFailures"),
            ("ChannelStream", "FanoutFailures"),
            ("MediaStream", "MediaFailures"),
            ("PendingStream", "NotifyFailures"),
            ("EntryStream", "PublishFailures"),
            ("JobStream", "JobsFailures"),
        ] {
            let local = self.server.local();
            // Events that the function itself gave up, and those that its mapping gave up.
            let by_itself = local.queue(queue).map_or(0, Queue::len);
            let given_up = (by_itself + local.mapping(stream).map_or(0, |stream| stream.given_up().len())) as u64;
            let visible = metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", &[("QueueName", queue)]);
            count(&mut since, visible, given_up);
        }
        let queue = |name| self.server.local().queue(name).expect("the template has it");
        let (dead, age_s) = (queue("BackendDeadLetters").len() as u64, queue("BackendQueue").age().as_secs());
        for (name, of, value) in [
            ("ApproximateNumberOfMessagesVisible", "BackendDeadLetters", dead),
            ("ApproximateAgeOfOldestMessage", "BackendQueue", age_s),
        ] {
            count(&mut since, metric("AWS/SQS", name, &[("QueueName", of)]), value);
        }
        self.periods.push(since);
        self.counted = now;
    }

    /// How many of the metric were counted in this period up to now. `of` is the value of one of its dimensions, and none is a route.
    pub(crate) async fn sum(&self, name: &str, of: &str) -> u64 {
        let sum = |counts: &Counts| -> u64 {
            let fits = |(_, found, dimensions): &Metric| {
                found == name && !dimensions.contains_key("route") && dimensions.values().any(|value| value == of)
            };
            counts.iter().filter(|(metric, _)| fits(metric)).flat_map(|(_, samples)| samples).sum()
        };
        sum(&self.counts(&self.lines().await)) - sum(&self.counted)
    }

    /// The functions' lines, oldest first.
    pub(crate) async fn lines(&self) -> Vec<Value> {
        let url = format!("{}/local/log", self.server.local().http_url());
        let text = self.server.http.get(url).send().await.unwrap().text().await.unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Asserts that a line of the log has this text in this member.
    pub(crate) async fn assert_logged(&self, member: &str, text: &str) {
        let texts: Vec<_> =
            self.lines().await.into_iter().filter_map(|line| Some(line[member].as_str()?.to_owned())).collect();
        assert!(texts.iter().any(|found| found.contains(text)), "no {member} has {text}: {texts:#?}");
    }

    /// Returns the reply to an operator.
    pub(crate) async fn admin(&self, request: Value) -> Value {
        let url = format!("{}/local/admin", self.server.local().http_url());
        let answer = self.server.http.post(url).json(&request).send().await.unwrap();
        answer.json::<Value>().await.unwrap()["result"].take()
    }

    /// That these alarms rang and no other did. For each: at the end of which periods it rang (`!`) and of which not (`.`).
    pub(crate) fn assert_rang(self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<_, _> =
            expected.iter().map(|(alarm, rang)| ((*alarm).to_owned(), (*rang).to_owned())).collect();
        let periods: Vec<Vec<Value>> = self.periods.iter().map(to_json).collect();
        let counted = periods.iter().map(|metrics| metrics.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
        let counted = counted.collect::<Vec<_>>().join("\n\n");
        assert_eq!(alarms(&json!(periods)), expected, "what was counted in each period:\n{counted}");
    }

    /// Returns the counts after every finished event has its line, which comes a moment after its reply.
    async fn settled(&self) -> Counts {
        loop {
            let aws = self.server.local().metrics();
            let of = |name| -> u64 { aws.iter().filter(|((_, of, _), _)| *of == name).map(|(_, times)| times).sum() };
            let lines = self.lines().await;
            let is_of_event =
                |line: &&Value| line.get("_aws").is_some() && line["route"] != "issuer" && line["route"] != "flood";
            let ended = lines.iter().filter(is_of_event);
            // An event that failed may have a line or none.
            if ended.count() as u64 >= of("Invocations") - of("Errors") {
                return self.counts(&lines);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What CloudWatch has counted since the start.
    fn counts(&self, lines: &[Value]) -> Counts {
        let mut counts = self.throttled.lock().unwrap().clone();
        for line in lines {
            count_line(&mut counts, line);
        }
        for ((namespace, name, of), times) in self.server.local().metrics() {
            let dimensions: &[(&str, &str)] = match namespace {
                "AWS/ApiGateway" => &[("ApiId", &of), ("Stage", "v1")],
                _ => &[("FunctionName", &of)],
            };
            counts.insert(metric(namespace, name, dimensions), vec![1; usize::try_from(times).unwrap()]);
        }
        for (function, ages) in self.server.local().iterator_ages() {
            counts.insert(metric("AWS/Lambda", "IteratorAge", &[("FunctionName", &function)]), ages);
        }
        counts
    }
}

/// The answer to a request, or what API Gateway says in its place.
pub(crate) async fn ask(phone: &mut Phone, request: Value) -> Frame {
    let id = phone.start(request).await;
    phone.wait_for(|frame| frame["id"] == *id || frame.get("connectionId").is_some()).await
}

fn to_json(counts: &Counts) -> Vec<Value> {
    let metric = |((namespace, name, dimensions), samples): (&Metric, &Vec<u64>)| json!({"namespace": namespace, "name": name, "dimensions": dimensions, "samples": samples});
    counts.iter().map(metric).collect()
}

/// By the alarm, for those that ring at all.
fn alarms(periods: &Value) -> BTreeMap<String, String> {
    let root = workspace_root();
    let mut python = Command::new(root.join(".venv/bin/python"))
        .arg(root.join("tools/scripts/alarms.py"))
        .arg("--rings")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`just tools` installs Python's packages");
    python.stdin.take().unwrap().write_all(periods.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "alarms.py failed");
    let rings: BTreeMap<String, Vec<bool>> = serde_json::from_slice(&output.stdout).unwrap();
    let rings = rings.into_iter().filter(|(_, rings)| rings.contains(&true));
    rings.map(|(alarm, rings)| (alarm, rings.iter().map(|rings| if *rings { '!' } else { '.' }).collect())).collect()
}

/// Counts a line as CloudWatch does: each of its metrics for each set of dimensions.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>
fn count_line(counts: &mut Counts, line: &Value) {
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
        let namespace = directive["Namespace"].as_str().unwrap();
        for dimensions in directive["Dimensions"].as_array().unwrap() {
            let dimensions: Vec<_> = dimensions.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            let dimensions: Vec<_> = dimensions.iter().map(|name| (*name, line[*name].as_str().unwrap())).collect();
            for defined in directive["Metrics"].as_array().unwrap() {
                let name = defined["Name"].as_str().unwrap();
                count(counts, metric(namespace, name, &dimensions), line[name].as_u64().unwrap());
            }
        }
    }
}

/// The metric that a throttled call counts in. In a transaction the kit has the last write turned away.
fn throttle_of(call: &AwsCall) -> Metric {
    let writes = call.body()["TransactItems"].as_array().and_then(|writes| writes.last()?.as_object()?.values().next());
    let table = writes.unwrap_or(call.body())["TableName"].as_str().unwrap();
    let name = if call.writes() { "WriteThrottleEvents" } else { "ReadThrottleEvents" };
    metric("AWS/DynamoDB", name, &[("TableName", table)])
}

fn metric(namespace: &str, name: &str, dimensions: &[(&str, &str)]) -> Metric {
    let dimensions = dimensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (namespace.to_owned(), name.to_owned(), dimensions.collect())
}

fn count(counts: &mut Counts, metric: Metric, value: u64) {
    counts.entry(metric).or_default().push(value);
}
