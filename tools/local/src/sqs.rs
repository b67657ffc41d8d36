//! SQS's protocol, as its SDKs and the AWS CLI speak it: a JSON object in, named by a header, and one out. Codes and texts of errors are
//! SQS's own.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::queues::{Letter, Message, Queue, Queues};

/// Where it is on the server's own port.
pub(crate) const PATH: &str = "/sqs";
const TARGET: &str = "AmazonSQS.";
/// A message with its attributes.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Ten of them, each escaped.
const REQUEST_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;
const BATCH_MAX: usize = 10;
const WAIT_S_MAX: u64 = 20;

/// An error, by its name in the JSON protocol and in the one before that.
struct SqsError(&'static str, &'static str, String);

impl SqsError {
    fn invalid(message: impl Into<String>) -> Self {
        Self("InvalidParameterValue", "InvalidParameterValue", message.into())
    }

    fn missing(name: &str) -> Self {
        let message = format!("The request must contain the parameter {name}.");
        Self("MissingParameter", "MissingParameter", message)
    }
}

/// SDKs post to the queue's own URL, or to the endpoint.
pub(crate) fn router(queues: Queues) -> Router {
    let paths = [PATH, &format!("{PATH}/"), &format!("{PATH}/{{account}}/{{queue}}")];
    let router = paths.into_iter().fold(Router::new(), |router, path| router.route(path, post(answer)));
    router.layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX)).with_state(queues)
}

async fn answer(State(queues): State<Queues>, headers: HeaderMap, body: String) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let request = serde_json::from_str::<Value>(&body).unwrap_or_default();
    let done = if let Some(action) = target.strip_prefix(TARGET) {
        call(&queues, action, &request).await
    } else {
        let how = "POST an action of SQS as JSON, with the header X-Amz-Target: AmazonSQS.SendMessage";
        Err(SqsError("InvalidAction", "InvalidAction", how.to_owned()))
    };
    match done {
        Ok(answer) => ([("content-type", "application/x-amz-json-1.0")], Json(answer)).into_response(),
        Err(SqsError(code, query_code, message)) => {
            let body = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": message });
            (StatusCode::BAD_REQUEST, [("x-amzn-query-error", format!("{query_code};Sender"))], Json(body))
                .into_response()
        }
    }
}

async fn call(queues: &Queues, action: &str, request: &Value) -> Result<Value, SqsError> {
    let queue = || queue(queues, request);
    Ok(match action {
        "ListQueues" => json!({"QueueUrls": queues.all().map(|queue| &queue.url).collect::<Vec<_>>()}),
        "GetQueueUrl" => {
            let name = text(request, "QueueName")?;
            let found = queues.all().find(|queue| queue.name == name).ok_or_else(no_queue)?;
            json!({"QueueUrl": found.url})
        }
        "GetQueueAttributes" => attributes(queue()?),
        "SendMessage" => send(queue()?, request)?,
        "SendMessageBatch" => batch(request, |entry| send(queue()?, entry))?,
        "ReceiveMessage" => receive(queue()?, request).await,
        "DeleteMessage" => {
            queue()?.delete(text(request, "ReceiptHandle")?);
            json!({})
        }
        "DeleteMessageBatch" => batch(request, |entry| {
            queue()?.delete(text(entry, "ReceiptHandle")?);
            Ok(json!({}))
        })?,
        "ChangeMessageVisibility" => change_visibility(queue()?, request)?,
        "ChangeMessageVisibilityBatch" => batch(request, |entry| change_visibility(queue()?, entry))?,
        "PurgeQueue" => {
            queue()?.purge();
            json!({})
        }
        "StartMessageMoveTask" => move_messages(queues, request)?,
        other => {
            return Err(SqsError("InvalidAction", "InvalidAction", format!("{other} is not known here")));
        }
    })
}

fn no_queue() -> SqsError {
    let message = "The specified queue does not exist.".to_owned();
    SqsError("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", message)
}

/// By its URL, of which the host may be another name of this machine.
fn queue<'a>(queues: &'a Queues, request: &Value) -> Result<&'a Arc<Queue>, SqsError> {
    let name = text(request, "QueueUrl")?.rsplit('/').next().unwrap_or_default();
    queues.all().find(|queue| queue.name == name).ok_or_else(no_queue)
}

fn text<'a>(request: &'a Value, name: &str) -> Result<&'a str, SqsError> {
    request.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or_else(|| SqsError::missing(name))
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn number(request: &Value, name: &str) -> Option<u64> {
    request.get(name).and_then(Value::as_u64)
}

fn attributes(queue: &Queue) -> Value {
    let (visible, under_way) = queue.counts();
    let mut attributes = json!({
        "QueueArn": queue.arn,
        "ApproximateNumberOfMessages": visible.to_string(),
        "ApproximateNumberOfMessagesNotVisible": under_way.to_string(),
        "ApproximateNumberOfMessagesDelayed": "0",
        "VisibilityTimeout": queue.settings.visibility.as_secs().to_string(),
    });
    if queue.settings.is_fifo {
        put(&mut attributes, "FifoQueue", json!("true"));
    }
    json!({ "Attributes": attributes })
}

fn send(queue: &Queue, request: &Value) -> Result<Value, SqsError> {
    let body = text(request, "MessageBody")?;
    let attributes = request.get("MessageAttributes").and_then(Value::as_object).cloned().unwrap_or_default();
    if body.len() + json!(attributes).to_string().len() > MESSAGE_BYTES_MAX {
        return Err(SqsError::invalid(
            "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
        ));
    }
    let (mut group, mut deduplication) = (String::new(), String::new());
    if queue.settings.is_fifo {
        text(request, "MessageGroupId")?.clone_into(&mut group);
        let given = text(request, "MessageDeduplicationId").map_err(|_| {
            let how = "ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly";
            SqsError::invalid(format!("The queue should either have {how}"))
        });
        given?.clone_into(&mut deduplication);
        for (name, id) in [("MessageGroupId", &group), ("MessageDeduplicationId", &deduplication)] {
            if id.len() > 128 || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
                let form = "can only include alphanumeric and punctuation characters. 1 to 128 in length";
                return Err(SqsError::invalid(format!(
                    "Value {id} for parameter {name} is invalid. Reason: {name} {form}"
                )));
            }
        }
    }
    let mut answer = json!({ "MD5OfMessageBody": digest(body.as_bytes()) });
    if !attributes.is_empty() {
        put(&mut answer, "MD5OfMessageAttributes", json!(digest(&canonical(&attributes))));
    }
    let sent = queue.send(Letter { body: body.to_owned(), attributes, group, deduplication });
    put(&mut answer, "MessageId", json!(sent.id));
    if queue.settings.is_fifo {
        put(&mut answer, "SequenceNumber", json!(sent.sequence));
    }
    Ok(answer)
}

/// Each entry for itself: some may succeed.
fn batch(request: &Value, act: impl Fn(&Value) -> Result<Value, SqsError>) -> Result<Value, SqsError> {
    let entries = request.get("Entries").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if entries.is_empty() || entries.len() > BATCH_MAX {
        let (code, query_code) =
            ("TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest");
        return Err(SqsError(code, query_code, "A batch has 1 to 10 entries.".to_owned()));
    }
    let (mut successful, mut failed) = (vec![], vec![]);
    for entry in entries {
        let id = entry.get("Id").cloned().unwrap_or_default();
        match act(entry) {
            Ok(mut done) => {
                put(&mut done, "Id", id);
                successful.push(done);
            }
            Err(SqsError(_, code, message)) => {
                failed.push(json!({"Id": id, "SenderFault": true, "Code": code, "Message": message}));
            }
        }
    }
    Ok(json!({"Successful": successful, "Failed": failed}))
}

async fn receive(queue: &Queue, request: &Value) -> Value {
    let count_max = number(request, "MaxNumberOfMessages").unwrap_or(1).clamp(1, BATCH_MAX as u64);
    let visibility = number(request, "VisibilityTimeout").map_or(queue.settings.visibility, Duration::from_secs);
    let patience = Duration::from_secs(number(request, "WaitTimeSeconds").unwrap_or_default().min(WAIT_S_MAX));
    let messages = queue.wait_for(usize::try_from(count_max).unwrap_or(BATCH_MAX), visibility, patience).await;
    if messages.is_empty() {
        return json!({});
    }
    let names = |field: &str| request.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let wanted = |names: &[Value], name: &str| names.iter().any(|one| one == "All" || one == ".*" || one == name);
    let system = [names("AttributeNames"), names("MessageSystemAttributeNames")].concat();
    let own = names("MessageAttributeNames");
    let shown = messages.iter().map(|message| {
        let mut shown = json!({
            "MessageId": message.sent.id, "ReceiptHandle": message.receipt,
            "Body": message.letter.body, "MD5OfBody": digest(message.letter.body.as_bytes()),
        });
        let keep = |mut all: Map<String, Value>, names: &[Value]| {
            all.retain(|name, _| wanted(names, name));
            all
        };
        let (system, own) = (keep(of_system(message), &system), keep(message.letter.attributes.clone(), &own));
        if !system.is_empty() {
            put(&mut shown, "Attributes", json!(system));
        }
        if !own.is_empty() {
            put(&mut shown, "MD5OfMessageAttributes", json!(digest(&canonical(&own))));
            put(&mut shown, "MessageAttributes", json!(own));
        }
        shown
    });
    json!({ "Messages": shown.collect::<Vec<_>>() })
}

fn change_visibility(queue: &Queue, request: &Value) -> Result<Value, SqsError> {
    let seconds = number(request, "VisibilityTimeout").ok_or_else(|| SqsError::missing("VisibilityTimeout"))?;
    queue.change_visibility(text(request, "ReceiptHandle")?, Duration::from_secs(seconds));
    Ok(json!({}))
}

/// Moves the messages before the reply.
fn move_messages(queues: &Queues, request: &Value) -> Result<Value, SqsError> {
    let of = |arn: &str| {
        let gone = || {
            let message =
                "The resource that you specified for the SourceArn or DestinationArn parameter doesn't exist.";
            SqsError("ResourceNotFoundException", "ResourceNotFoundException", message.to_owned())
        };
        queues.all().find(|queue| queue.arn == arn).ok_or_else(gone)
    };
    let source = of(text(request, "SourceArn")?)?;
    let destination = request.get("DestinationArn").and_then(Value::as_str).map(of).transpose()?;
    let moved = source.move_to(queues, destination.map(|queue| &**queue));
    if destination.is_none() && moved.left > 0 {
        // On AWS the task fails, and its description has the reason.
        return Err(SqsError::invalid("CouldNotDetermineMessageSource: name the DestinationArn"));
    }
    Ok(json!({ "TaskHandle": BASE64.encode(format!("moved {}", moved.moved).as_bytes()) }))
}

/// What SQS says of a message.
fn of_system(message: &Message) -> Map<String, Value> {
    let millis = |at: OffsetDateTime| (at.unix_timestamp_nanos() / 1_000_000).to_string();
    let first = message.first_received_at.unwrap_or(message.sent_at);
    let all = [
        ("ApproximateReceiveCount", message.receives.to_string()),
        ("SentTimestamp", millis(message.sent_at)),
        ("ApproximateFirstReceiveTimestamp", millis(first)),
        ("SenderId", "AIDALOCAL".to_owned()),
        ("SequenceNumber", message.sent.sequence.clone()),
        ("MessageGroupId", message.letter.group.clone()),
        ("MessageDeduplicationId", message.letter.deduplication.clone()),
        ("DeadLetterQueueSourceArn", message.source.clone().unwrap_or_default()),
    ];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

/// As Lambda hands it to a function: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>.
pub(crate) fn record(queue: &Queue, message: &Message) -> Value {
    let attributes = message.letter.attributes.iter().map(|(name, value)| {
        let value = json!({
            "stringValue": value.get("StringValue"), "binaryValue": value.get("BinaryValue"),
            "stringListValues": [], "binaryListValues": [], "dataType": value.get("DataType"),
        });
        (name.clone(), value)
    });
    json!({
        "messageId": message.sent.id, "receiptHandle": message.receipt, "body": message.letter.body,
        "attributes": of_system(message), "messageAttributes": attributes.collect::<Map<_, _>>(),
        "md5OfBody": digest(message.letter.body.as_bytes()),
        "eventSource": "aws:sqs", "eventSourceARN": queue.arn, "awsRegion": "us-east-1",
    })
}

fn digest(bytes: &[u8]) -> String {
    format!("{:x}", md5::compute(bytes))
}

/// What SQS and its SDKs take the digest of:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>.
fn canonical(attributes: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = vec![];
    let put = |bytes: &mut Vec<u8>, part: &[u8]| {
        bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(part);
    };
    // Sorted by name, as the map is.
    for (name, value) in attributes {
        let part = |field: &str| value.get(field).and_then(Value::as_str);
        put(&mut bytes, name.as_bytes());
        put(&mut bytes, part("DataType").unwrap_or_default().as_bytes());
        match (part("StringValue"), part("BinaryValue")) {
            (Some(text), _) => {
                bytes.push(1);
                put(&mut bytes, text.as_bytes());
            }
            (None, binary) => {
                bytes.push(2);
                put(&mut bytes, &BASE64.decode(binary.unwrap_or_default().as_bytes()).unwrap_or_default());
            }
        }
    }
    bytes
}
