//! Faults of calls to AWS.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{AwsCall, fake_s3, fake_sns};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call never arrives; the client sees a broken connection.
    Lost,
    /// The call takes effect; the client sees a broken connection.
    ReplyLost,
    /// The client sees a broken connection, and the call arrives later, at any time.
    Late,
    /// The call arrives, and the reply comes this much later.
    Delayed(Duration),
    /// The sandbox that makes it is killed: the call never arrives, nor does any later one.
    Killed,
    /// The sandbox that makes it is killed when it has taken effect.
    KilledAfter,
    /// A transaction was at work on one of its items.
    Conflict,
    /// More than the table takes at the moment.
    Throttled,
    /// More than the partition with this key accepts at the moment. In a batch, the keys with this text stay
    /// unprocessed, and the others succeed. Any other call is throttled.
    Hot(&'static str),
    /// There is no room for more in the partition.
    Full,
    /// A transaction is cancelled, with these codes as the reasons of its first items.
    Cancelled(&'static [&'static str]),
    /// Queries do not find what the last transaction wrote, until whoever made this one is done.
    Unseen,
    /// As `Unseen`, for the transaction before the last one.
    Hole,
    /// The service refuses, with this HTTP status.
    Status(u16),
    /// SNS refuses, with this code.
    Sns(&'static str),
}

impl Fault {
    /// Whether the call takes effect, now.
    pub fn takes_effect(self) -> bool {
        matches!(self, Self::ReplyLost | Self::KilledAfter | Self::Delayed(_)) || self.shows_half()
    }

    /// Returns the reply to a batch that fails in part, with the unprocessed keys. `perform` handles the rest.
    pub(crate) fn partial_answer(
        self,
        call: &AwsCall,
        perform: impl FnOnce(&AwsCall) -> (u16, String),
    ) -> Option<(u16, String)> {
        let Self::Hot(key) = self else { return None };
        if call.operation() != "BatchGetItem" {
            return None;
        }
        let (rest, unprocessed) = call.without_keys(key);
        let is_empty = rest.body()["RequestItems"].as_object().is_none_or(serde_json::Map::is_empty);
        let (status, answer) = if is_empty { (200, r#"{"Responses":{}}"#.to_owned()) } else { perform(&rest) };
        let mut answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        answer["UnprocessedKeys"] = unprocessed;
        Some((status, answer.to_string()))
    }

    /// Reports whether the call succeeds but shows only a part.
    pub fn shows_half(self) -> bool {
        matches!(self, Self::Unseen | Self::Hole)
    }

    /// Returns the refusal of SNS, in XML.
    fn refusal_of_sns(self) -> Option<(u16, String)> {
        match self {
            Self::Lost
            | Self::ReplyLost
            | Self::Late
            | Self::Delayed(_)
            | Self::Killed
            | Self::KilledAfter
            | Self::Unseen
            | Self::Hole => None,
            Self::Throttled | Self::Hot(_) => Some(fake_sns::error(429, "Throttled", "Rate exceeded")),
            Self::Sns(code) => Some(fake_sns::error(400, code, "")),
            Self::Conflict | Self::Cancelled(_) | Self::Full | Self::Status(_) => {
                Some(fake_sns::error(500, "InternalFailure", ""))
            }
        }
    }

    /// Returns the refusal of S3, in XML.
    fn refusal_of_s3(self) -> Option<(u16, String)> {
        match self {
            Self::Lost
            | Self::ReplyLost
            | Self::Late
            | Self::Delayed(_)
            | Self::Killed
            | Self::KilledAfter
            | Self::Unseen
            | Self::Hole => None,
            Self::Throttled | Self::Hot(_) => Some(fake_s3::error(503, "SlowDown")),
            Self::Conflict | Self::Cancelled(_) | Self::Full | Self::Status(_) | Self::Sns(_) => {
                Some(fake_s3::error(500, "InternalError"))
            }
        }
    }

    /// The status and body with which the service refuses the call; `None` where it does not answer at all.
    pub fn refusal(self, call: &AwsCall) -> Option<(u16, String)> {
        if matches!(call, AwsCall::Push { .. }) {
            return self.refusal_of_sns();
        }
        if matches!(call, AwsCall::Object { .. }) {
            return self.refusal_of_s3();
        }
        let error = |status, code: &str| {
            let body = json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "" });
            Some((status, body.to_string()))
        };
        match self {
            Self::Lost
            | Self::ReplyLost
            | Self::Late
            | Self::Delayed(_)
            | Self::Killed
            | Self::KilledAfter
            | Self::Unseen
            | Self::Hole => None,
            Self::Conflict if call.operation() == "TransactWriteItems" => {
                Some(cancelled(&["TransactionConflict"], call))
            }
            Self::Conflict => error(400, "TransactionConflictException"),
            Self::Full if call.operation() == "TransactWriteItems" => {
                Some(cancelled(&["ItemCollectionSizeLimitExceeded"], call))
            }
            Self::Full => error(400, "ItemCollectionSizeLimitExceededException"),
            Self::Throttled | Self::Hot(_) => error(400, "ThrottlingException"),
            Self::Cancelled(codes) => Some(cancelled(codes, call)),
            Self::Sns(code) => error(400, code),
            Self::Status(500) => error(500, "InternalServerError"),
            Self::Status(403) => error(403, "ForbiddenException"),
            Self::Status(429) => error(429, "LimitExceededException"),
            // The real bodies of a connection that is gone, and of a load balancer, name no error.
            Self::Status(status) => Some((status, json!({ "message": null }).to_string())),
        }
    }
}

/// `TransactionCanceledException`, with a reason for each item.
fn cancelled(codes: &[&str], call: &AwsCall) -> (u16, String) {
    let items = call.body()["TransactItems"].as_array().map_or(1, Vec::len);
    let codes: Vec<_> = codes.iter().copied().chain(std::iter::repeat("None")).take(items).collect();
    let reasons: Vec<Value> = codes.iter().map(|code| json!({ "Code": code })).collect();
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": format!("Transaction cancelled, see reasons [{}]", codes.join(", ")),
        "CancellationReasons": reasons,
    });
    (400, body.to_string())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("lost"),
            Self::ReplyLost => f.write_str("reply-lost"),
            Self::Late => f.write_str("late"),
            Self::Delayed(by) => write!(f, "delayed-by-{by:?}"),
            Self::Killed => f.write_str("killed"),
            Self::KilledAfter => f.write_str("killed-after"),
            Self::Conflict => f.write_str("conflict"),
            Self::Throttled => f.write_str("throttled"),
            Self::Hot(key) => write!(f, "hot-{key}"),
            Self::Full => f.write_str("full"),
            Self::Unseen => f.write_str("unseen"),
            Self::Hole => f.write_str("hole"),
            Self::Cancelled(codes) => write!(f, "cancelled-{}", codes.join("-")),
            Self::Status(status) => write!(f, "{status}"),
            Self::Sns(code) => write!(f, "sns-{code}"),
        }
    }
}

/// Parses the faults that a schedule can have.
impl FromStr for Fault {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let broken = [Self::Lost, Self::ReplyLost, Self::Late, Self::Killed];
        let mut named = broken.into_iter().chain([Self::Conflict, Self::Throttled, Self::Unseen, Self::Hole]);
        let status = || text.parse().map(Self::Status).map_err(drop);
        named.find(|fault| fault.to_string() == text).map_or_else(status, Ok)
    }
}
