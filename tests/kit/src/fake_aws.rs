//! AWS in this process, which records requests and fails on demand.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use serde_json::Value;
use template::plain_item;
use tokio::sync::Notify;

use crate::cloud::Cloud;
use crate::fake_s3::FakeS3;
use crate::fake_sns::FakeSns;
use crate::{
    AwsCall, Connector, Fault, dynamodb_config, events_config, management_config, s3_config, sns_config, sqs_config,
};

/// The template's tables, and sockets that are all open. Clones are the same AWS.
///
/// `name`, in its methods, is the operation of a call to `DynamoDB`, SNS or S3, the connection that is posted to, or `DeleteConnection`.
#[derive(Clone, Default)]
pub struct FakeAws(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    cloud: Cloud,
    calls: Vec<AwsCall>,
    /// Bytes of all replies to reads.
    read_bytes: usize,
    /// Tries to post, by connection.
    posts: HashMap<String, usize>,
    closed: Vec<String>,
    /// For the calls to come, one each.
    next: HashMap<String, VecDeque<Step>>,
    always: HashMap<String, Fault>,
    /// Decides which calls fail, and how.
    rule: Option<Box<Rule>>,
}

type Rule = dyn Fn(&AwsCall) -> Option<Fault> + Send;

enum Step {
    Pass,
    Fail(Fault),
    Hold(Hold),
}

/// A call that waits on its way to the service, so that something else can happen first.
#[derive(Debug, Clone, Default)]
pub struct Hold(Arc<(Notify, Notify)>);

impl Hold {
    /// Waits until the call is on its way.
    pub async fn reached(&self) {
        self.0.0.notified().await;
    }

    /// Lets it go on.
    pub fn release(&self) {
        self.0.1.notify_one();
    }

    async fn wait(&self) {
        self.0.0.notify_one();
        self.0.1.notified().await;
    }
}

impl FakeAws {
    /// With phones to ring, so that the inbox table has a stream.
    pub fn streaming() -> Self {
        Self(Arc::new(Mutex::new(Inner { cloud: Cloud::streaming(), ..Inner::default() })))
    }

    /// Returns new writes to the inbox table, as Lambda delivers them, before its filter.
    pub fn records(&self) -> Vec<Value> {
        self.lock().cloud.records()
    }

    /// Returns new steps of jobs, as Lambda delivers them, after its filters.
    pub fn jobs(&self) -> Vec<Value> {
        self.lock().cloud.jobs()
    }

    /// Returns new entries and new reports, as Lambda delivers them, after its filters.
    pub fn news(&self) -> [Vec<Value>; 2] {
        self.lock().cloud.news()
    }

    /// The events that the bus and the queue of the team's own servers took, as sent.
    pub fn published(&self) -> Vec<Value> {
        self.lock().cloud.published.clone()
    }

    /// From now on, both refuse events with one of these parts.
    pub fn refuse_events(&self, parts: &[&str]) {
        self.lock().cloud.refused_events = parts.iter().map(|part| (*part).to_owned()).collect();
    }

    /// Which groups have moved since the last look, as Lambda hands it on.
    pub fn heads(&self) -> Vec<Value> {
        self.lock().cloud.heads()
    }

    /// A `DynamoDB` client that does not retry, so that each fault reaches the code under test.
    pub fn dynamodb_client(&self) -> dynamodb::Client {
        let config = dynamodb_config(self.connector()).retry_config(dynamodb::config::retry::RetryConfig::disabled());
        dynamodb::Client::from_conf(config.build())
    }

    /// One attempt per post, given up after a second, as in production.
    pub fn management_client(&self) -> management::Client {
        let timeout = management::config::timeout::TimeoutConfig::builder();
        let timeout = timeout.operation_timeout(deliver::POST_TIMEOUT).build();
        management::Client::from_conf(management_config(self.connector()).timeout_config(timeout).build())
    }

    /// One attempt per call.
    pub fn sns_client(&self) -> aws_sdk_sns::Client {
        aws_sdk_sns::Client::from_conf(sns_config(self.connector()).build())
    }

    /// One attempt per call.
    pub fn sqs_client(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::from_conf(sqs_config(self.connector()).build())
    }

    /// One attempt per call.
    pub fn events_client(&self) -> aws_sdk_eventbridge::Client {
        aws_sdk_eventbridge::Client::from_conf(events_config(self.connector()).build())
    }

    /// Lists the dead letters: reason, detail and message of each.
    pub fn dead_letters(&self) -> Vec<[String; 3]> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let letter = |letter: &Value| {
            let attribute = |name: &str| text(&letter["MessageAttributes"][name]["StringValue"]);
            [attribute("reason"), attribute("detail"), text(&letter["MessageBody"])]
        };
        self.lock().cloud.dead_letters.iter().map(letter).collect()
    }

    /// Lists the events that failed after all retries. The function can be invoked with them again.
    pub fn given_up(&self) -> Vec<Value> {
        self.lock().cloud.given_up.clone()
    }

    /// One attempt per call.
    pub fn s3_client(&self) -> aws_sdk_s3::Client {
        aws_sdk_s3::Client::from_conf(s3_config(self.connector()).build())
    }

    /// Which media rows were removed since the last look, as Lambda hands it on.
    pub fn removed(&self) -> Vec<Value> {
        self.lock().cloud.media()
    }

    /// The objects behind it.
    pub fn with_s3<T>(&self, look: impl FnOnce(&mut FakeS3) -> T) -> T {
        look(&mut self.lock().cloud.s3)
    }

    /// Removes a row, as the TTL does.
    pub fn remove_row(&self, table: &str, key: &Value) {
        self.lock().cloud.remove(table, key);
    }

    /// The phones behind it.
    pub fn with_sns<T>(&self, look: impl FnOnce(&mut FakeSns) -> T) -> T {
        look(&mut self.lock().cloud.sns)
    }

    fn connector(&self) -> Connector {
        let aws = self.clone();
        Connector::new(move |call| aws.clone().answer(call))
    }

    /// The calls to `DynamoDB` and SNS since the last [`clear`](Self::clear), in the order in which they were made, whether or not
    /// they arrived.
    pub fn calls(&self) -> Vec<AwsCall> {
        self.lock().calls.clone()
    }

    /// Waits until this many requests for the operation have come since the last [`clear`](Self::clear).
    pub async fn until(&self, operation: &str, count: usize) {
        while self.operations().iter().filter(|asked| *asked == operation).count() < count {
            tokio::task::yield_now().await;
        }
    }

    /// Writes rows into a table, in `DynamoDB`'s own form, as some other version of the functions would. Each row replaces the one
    /// with its key.
    pub fn put_rows(&self, table: &str, rows: &[Value]) {
        for row in rows {
            self.lock().cloud.put(table, row);
        }
    }

    /// All rows of a table in `DynamoDB`'s own form.
    pub fn raw_rows(&self, table: &str) -> Vec<Value> {
        self.lock().cloud.scan(table)
    }

    /// The operations of these calls.
    pub fn operations(&self) -> Vec<String> {
        self.lock().calls.iter().map(|call| call.operation().to_owned()).collect()
    }

    /// Forgets the calls so far.
    pub fn clear(&self) {
        self.lock().calls.clear();
        self.lock().read_bytes = 0;
    }

    /// Returns the bytes of the database's replies to reads since the last [`clear`](Self::clear), as JSON.
    pub fn read_bytes(&self) -> usize {
        self.lock().read_bytes
    }

    /// Counts the tries to post to a connection, including failed ones.
    pub fn posts(&self, connection: &str) -> usize {
        self.lock().posts.get(connection).copied().unwrap_or_default()
    }

    /// Lists the connections in the order of tries to close them, including failed ones.
    pub fn closed(&self) -> Vec<String> {
        self.lock().closed.clone()
    }

    /// The frames that a connection took, in the order of their arrival.
    pub fn frames(&self, connection: &str) -> Vec<Value> {
        self.lock().cloud.sockets().get(connection).cloned().unwrap_or_default()
    }

    /// All rows of a table as plain JSON.
    pub fn rows(&self, table: &str) -> Vec<Value> {
        self.lock().cloud.scan(table).iter().map(plain_item).collect()
    }

    /// Makes the next call fail; asked for again, the one after it as well.
    pub fn fail_next(&self, name: &str, fault: Fault) {
        self.then(name, Step::Fail(fault));
    }

    /// Makes every call fail from now on.
    pub fn fail_always(&self, name: &str, fault: Fault) {
        self.lock().always.insert(name.to_owned(), fault);
    }

    /// From now on, this rule decides how a call fails, unless another setting does.
    pub fn fail_if(&self, rule: impl Fn(&AwsCall) -> Option<Fault> + Send + 'static) {
        self.lock().rule = Some(Box::new(rule));
    }

    /// Nothing goes wrong any more.
    pub fn recover(&self) {
        let inner = &mut *self.lock();
        inner.rule = None;
        inner.always.clear();
    }

    /// Passes the next call unchanged. Later settings concern the call after it.
    pub fn pass_next(&self, name: &str) {
        self.then(name, Step::Pass);
    }

    /// Holds the next call on its way.
    pub fn hold_next(&self, name: &str) -> Hold {
        let hold = Hold::default();
        self.then(name, Step::Hold(hold.clone()));
        hold
    }

    /// Asserts that reads are consistent, in all tables except one. Profiles and looks may be read eventually, too. The embedded
    /// database reads consistently in any case, so only this check sees the request's flag.
    pub fn assert_reads_are_consistent(&self, except_of: &str) {
        for call in self.calls().iter().filter(|call| call.body()["TableName"] != except_of) {
            let keys = &call.body()["RequestItems"]["ConversationsTable"]["Keys"];
            let key = keys[0]["conversation_id"]["S"].as_str();
            let is_of_profiles = key.is_some_and(|key| key.starts_with("profile ") || key.starts_with("info "));
            assert!(
                is_of_profiles || !call.is_stale_read(),
                "not a consistent read: {} {:#}",
                call.operation(),
                call.body()
            );
        }
    }

    fn then(&self, name: &str, step: Step) {
        self.lock().next.entry(name.to_owned()).or_default().push_back(step);
    }

    async fn answer(self, call: AwsCall) -> Option<(u16, String)> {
        let fault = match self.record(&call) {
            None | Some(Step::Pass) => None,
            Some(Step::Hold(hold)) => {
                hold.wait().await;
                None
            }
            Some(Step::Fail(Fault::Delayed(by))) => {
                tokio::time::sleep(by).await;
                None
            }
            Some(Step::Fail(fault)) => Some(fault),
        };
        let partial = fault.and_then(|fault| fault.partial_answer(&call, |rest| self.lock().cloud.perform(rest)));
        if partial.is_some() {
            return partial;
        }
        let answer = fault.is_none_or(Fault::takes_effect).then(|| self.lock().cloud.perform(&call));
        if let (AwsCall::Database { .. }, false, Some((_, body))) = (&call, call.writes(), &answer) {
            self.lock().read_bytes += body.len();
        }
        fault.map_or(answer, |fault| fault.refusal(&call))
    }

    /// Records the call, and gives what happens to it.
    fn record(&self, call: &AwsCall) -> Option<Step> {
        let inner = &mut *self.lock();
        let name = match call {
            AwsCall::Database { operation, .. }
            | AwsCall::Push { operation, .. }
            | AwsCall::Object { operation, .. }
            | AwsCall::Queue { operation, .. } => {
                inner.calls.push(call.clone());
                operation.as_str()
            }
            AwsCall::Post { connection, .. } => {
                *inner.posts.entry(connection.clone()).or_default() += 1;
                if !inner.cloud.sockets().contains_key(connection) {
                    inner.cloud.socket_open(connection);
                }
                connection
            }
            AwsCall::Close { connection } => {
                inner.closed.push(connection.clone());
                "DeleteConnection"
            }
        };
        let next = inner.next.get_mut(name).and_then(VecDeque::pop_front);
        let always = inner.always.get(name).copied();
        let ruled = || inner.rule.as_ref().and_then(|rule| rule(call));
        next.or_else(|| always.or_else(ruled).map(Step::Fail))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_sdk_apigatewaymanagement::error::SdkError;
    use aws_sdk_apigatewaymanagement::primitives::Blob;
    use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
    use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
    use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
    use serde_json::json;

    use super::FakeAws;
    use crate::Fault;

    fn put(user: &str) -> Put {
        let put = Put::builder().table_name("ConnectionsTable").item("user_id", AttributeValue::S(user.to_owned()));
        put.item("connection_id", AttributeValue::S("c".to_owned())).build().unwrap()
    }

    #[tokio::test]
    async fn calls_are_recorded_and_fail_as_told() {
        let aws = FakeAws::default();
        let client = aws.dynamodb_client();
        let put = async |user: &str| {
            let Put { table_name, item, .. } = put(user);
            client.put_item().table_name(table_name).set_item(Some(item)).send().await
        };
        aws.fail_next("PutItem", Fault::Lost);
        aws.fail_next("PutItem", Fault::ReplyLost);
        aws.fail_next("PutItem", Fault::Status(500));
        assert!(put("lost").await.is_err());
        assert!(put("reply-lost").await.is_err());
        assert_eq!(put("refused").await.unwrap_err().code(), Some("InternalServerError"));
        put("stored").await.unwrap();

        let mut users: Vec<_> = aws.rows("ConnectionsTable").into_iter().map(|row| row["user_id"].clone()).collect();
        users.sort_by_key(ToString::to_string);
        assert_eq!(users, [json!("reply-lost"), json!("stored")]);
        assert_eq!(aws.operations(), ["PutItem"; 4]);
        assert_eq!(aws.calls()[3].body()["Item"]["user_id"], json!({ "S": "stored" }));
    }

    #[tokio::test]
    async fn a_cancelled_transaction_says_why() {
        let aws = FakeAws::default();
        aws.fail_always("TransactWriteItems", Fault::Conflict);
        let items = ["alice", "bob"].map(|user| TransactWriteItem::builder().put(put(user)).build());
        let write = aws.dynamodb_client().transact_write_items().set_transact_items(Some(items.into()));
        let error = write.send().await.unwrap_err().into_service_error();
        let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else { panic!("{error:?}") };
        let codes: Vec<_> = cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap()).collect();
        assert_eq!(codes, ["TransactionConflict", "None"]);
    }

    #[tokio::test]
    async fn a_held_call_waits_for_its_release() {
        let aws = FakeAws::default();
        let hold = aws.hold_next("PutItem");
        let Put { table_name, item, .. } = put("alice");
        let client = aws.dynamodb_client();
        let putting = tokio::spawn(client.put_item().table_name(table_name).set_item(Some(item)).send());
        hold.reached().await;
        assert!(!putting.is_finished());
        assert!(aws.rows("ConnectionsTable").is_empty());
        hold.release();
        putting.await.unwrap().unwrap();
        assert_eq!(aws.rows("ConnectionsTable").len(), 1);
    }

    #[tokio::test]
    async fn frames_are_kept_and_connections_fail_as_told() {
        let aws = FakeAws::default();
        let client = aws.management_client();
        let status = async |connection: &str| {
            let posted = client.post_to_connection().connection_id(connection).data(Blob::new(r#"{"n":1}"#));
            match posted.send().await {
                Ok(_) => Some(200),
                Err(SdkError::TimeoutError(_)) => None,
                Err(error) => Some(error.raw_response().unwrap().status().as_u16()),
            }
        };
        aws.fail_always("gone=", Fault::Status(410));
        aws.fail_always("slow=", Fault::Delayed(Duration::from_mins(1)));
        aws.fail_always("full=", Fault::Status(429));
        assert_eq!(status("good=").await, Some(200));
        assert_eq!(status("gone=").await, Some(410));
        assert_eq!(status("full=").await, Some(429));
        assert_eq!(status("slow=").await, None);
        assert_eq!(aws.frames("good="), [json!({ "n": 1 })]);
        assert!(aws.frames("gone=").is_empty());
        assert_eq!((aws.posts("good="), aws.posts("gone=")), (1, 1));
    }
}
