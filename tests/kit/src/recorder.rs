//! What an SDK client asks for, seen at its HTTP connector; and calls that go wrong there.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::cloud::is_stale_read;
use crate::plain_http;

/// A call that the client made, whether or not it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// As the service calls it: `TransactWriteItems`.
    pub operation: String,
    pub body: Value,
}

/// How a call goes wrong.
#[derive(Debug, Clone)]
pub enum Failure {
    /// It never arrives.
    Lost,
    /// It arrives and takes effect, but its answer does not come back.
    ReplyLost,
    /// It takes no effect, and this is the answer.
    Status(u16, Value),
}

impl Failure {
    /// `TransactionCanceledException`, with the code (`None`, `TransactionConflict`, …) of each item's reason.
    pub fn cancelled(codes: &[&str]) -> Self {
        let reasons: Vec<_> = codes.iter().map(|code| json!({ "Code": code })).collect();
        Self::Status(
            400,
            json!({
                "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                "Message": format!("Transaction cancelled, see reasons [{}]", codes.join(", ")),
                "CancellationReasons": reasons,
            }),
        )
    }

    /// `TransactionConflictException`: what a single write gets while a transaction is at work on its item.
    pub fn conflict() -> Self {
        Self::store(400, "TransactionConflictException")
    }

    /// More than the table takes at the moment.
    pub fn throttled() -> Self {
        Self::store(400, "ThrottlingException")
    }

    /// The service's own failure.
    pub fn internal() -> Self {
        Self::store(500, "InternalServerError")
    }

    /// A service that can't be reached, by its load balancer's word.
    pub fn unavailable() -> Self {
        Self::Status(503, Value::Null)
    }

    /// A connection that is gone, or is not there yet. The real one's body names no error.
    pub fn gone() -> Self {
        Self::Status(410, json!({ "message": null }))
    }

    /// More frames than the account may post.
    pub fn limited() -> Self {
        Self::Status(429, json!({ "__type": "LimitExceededException", "message": "Rate exceeded" }))
    }

    /// The service's answer, unless the connection breaks.
    pub(crate) fn answer(self) -> Option<HttpResponse> {
        match self {
            Self::Lost | Self::ReplyLost => None,
            Self::Status(status, body) => Some(answer(status, body.to_string())),
        }
    }

    fn store(status: u16, code: &str) -> Self {
        Self::Status(status, json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "" }))
    }
}

/// An HTTP client for the SDK. Clones share what they record and how they fail.
#[derive(Clone)]
pub struct Recorder {
    client: SharedHttpClient,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    calls: Vec<Call>,
    /// By operation, for the calls to come, one each.
    next: HashMap<String, VecDeque<Step>>,
    always: HashMap<String, Failure>,
}

enum Step {
    Fail(Failure),
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

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    pub fn new() -> Self {
        Self { client: plain_http(), script: Arc::default() }
    }

    /// All calls so far, in the order in which they were made.
    pub fn calls(&self) -> Vec<Call> {
        self.script.lock().unwrap().calls.clone()
    }

    /// The names of all calls so far.
    pub fn operations(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.operation).collect()
    }

    /// Forgets the calls so far.
    pub fn clear(&self) {
        self.script.lock().unwrap().calls.clear();
    }

    /// Makes the next call of the operation fail; asked for again, the one after it as well.
    pub fn fail_next(&self, operation: &str, failure: Failure) {
        self.then(operation, Step::Fail(failure));
    }

    /// Makes every call of the operation fail from now on.
    pub fn fail_always(&self, operation: &str, failure: Failure) {
        self.script.lock().unwrap().always.insert(operation.to_owned(), failure);
    }

    /// Holds the next call of the operation on its way.
    pub fn hold_next(&self, operation: &str) -> Hold {
        let hold = Hold::default();
        self.then(operation, Step::Hold(hold.clone()));
        hold
    }

    /// The embedded database reads consistently in any case, so whether it was asked to is seen here only. Of all tables but
    /// one, which may also be read eventually.
    pub fn assert_reads_are_consistent(&self, except_of: &str) {
        for call in self.calls().iter().filter(|call| call.body["TableName"] != except_of) {
            let stale = is_stale_read(&call.operation, &call.body);
            assert!(!stale, "not a consistent read: {} {:#}", call.operation, call.body);
        }
    }

    fn then(&self, operation: &str, step: Step) {
        self.script.lock().unwrap().next.entry(operation.to_owned()).or_default().push_back(step);
    }

    /// Records the call and says what is to become of it.
    fn record(&self, request: &HttpRequest) -> Option<Step> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
        let mut script = self.script.lock().unwrap();
        let next = script.next.get_mut(&operation).and_then(VecDeque::pop_front);
        let step = next.or_else(|| script.always.get(&operation).cloned().map(Step::Fail));
        script.calls.push(Call { operation, body });
        step
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl HttpClient for Recorder {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        SharedHttpConnector::new(RecordingConnector { recorder: self.clone(), connector })
    }
}

#[derive(Debug)]
struct RecordingConnector {
    recorder: Recorder,
    connector: SharedHttpConnector,
}

impl HttpConnector for RecordingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let step = self.recorder.record(&request);
        let connector = self.connector.clone();
        HttpConnectorFuture::new(async move {
            match step {
                None => connector.call(request).await,
                Some(Step::Hold(hold)) => {
                    hold.wait().await;
                    connector.call(request).await
                }
                Some(Step::Fail(Failure::Lost)) => Err(lost("the request was lost")),
                Some(Step::Fail(Failure::ReplyLost)) => {
                    connector.call(request).await?;
                    Err(lost("the reply was lost"))
                }
                Some(Step::Fail(Failure::Status(status, body))) => Ok(answer(status, body.to_string())),
            }
        })
    }
}

pub(crate) fn answer(status: u16, body: String) -> HttpResponse {
    HttpResponse::new(status.try_into().expect("an HTTP status"), SdkBody::from(body))
}

pub(crate) fn lost(why: &'static str) -> ConnectorError {
    ConnectorError::io(why.into())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
    use aws_sdk_dynamodb::types::AttributeValue;
    use serde_json::json;

    use super::{Failure, Recorder};
    use crate::Database;

    #[tokio::test]
    async fn calls_are_recorded_and_fail_as_told() {
        let database = Database::start().await;
        let recorder = Recorder::new();
        let client = database.client_with(&recorder);
        let put = async |user: &str| {
            let table = database.table_name("ConnectionsTable");
            let put = client.put_item().table_name(table).item("user_id", AttributeValue::S(user.to_owned()));
            put.item("connection_id", AttributeValue::S("c".to_owned())).send().await
        };
        recorder.fail_next("PutItem", Failure::Lost);
        recorder.fail_next("PutItem", Failure::ReplyLost);
        recorder.fail_next("PutItem", Failure::internal());
        assert!(put("lost").await.is_err());
        assert!(put("reply-lost").await.is_err());
        assert_eq!(put("refused").await.unwrap_err().code(), Some("InternalServerError"));
        put("stored").await.unwrap();

        let mut users: Vec<_> =
            database.scan("ConnectionsTable").into_iter().map(|row| row["user_id"].clone()).collect();
        users.sort_by_key(ToString::to_string);
        assert_eq!(users, [json!("reply-lost"), json!("stored")]);
        assert_eq!(recorder.operations(), ["PutItem"; 4]);
        assert_eq!(recorder.calls()[3].body["Item"]["user_id"], json!({ "S": "stored" }));
    }

    #[tokio::test]
    async fn a_cancelled_transaction_says_why() {
        let database = Database::start().await;
        let recorder = Recorder::new();
        recorder.fail_always("TransactWriteItems", Failure::cancelled(&["None", "TransactionConflict"]));
        let client = database.client_with(&recorder);
        let error = client.transact_write_items().set_transact_items(Some(vec![])).send().await.unwrap_err();
        let error = error.into_service_error();
        let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
            cancelled,
        ) = error
        else {
            panic!("{error:?}")
        };
        let codes: Vec<_> = cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap()).collect();
        assert_eq!(codes, ["None", "TransactionConflict"]);
    }

    #[tokio::test]
    async fn a_held_call_waits_for_its_release() {
        let database = Database::start().await;
        let recorder = Recorder::new();
        let client = database.client_with(&recorder);
        let hold = recorder.hold_next("ListTables");
        let listing = tokio::spawn(client.list_tables().send());
        hold.reached().await;
        assert!(!listing.is_finished());
        hold.release();
        assert_eq!(listing.await.unwrap().unwrap().table_names().len(), 4);
    }
}
