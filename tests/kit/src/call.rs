//! A call to AWS, as the service sees it.

use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub enum AwsCall {
    /// To `DynamoDB`: `TransactWriteItems` and its body.
    Database { operation: String, body: Value },
    /// A frame to a connection.
    Post { connection: String, frame: Value },
}

impl AwsCall {
    /// From an HTTP request: its header `x-amz-target`, if it has one, its URL, and its body.
    pub fn parse(target: Option<&str>, url: &str, body: &[u8]) -> Self {
        // A post that only opens the connection to the service has no frame.
        let body = serde_json::from_slice(body).unwrap_or_default();
        let last = |text: &str, separator| text.rsplit(separator).next().unwrap_or_default().to_owned();
        match target {
            Some(target) => Self::Database { operation: last(target, '.'), body },
            None => Self::Post { connection: last(url, '/').replace("%3D", "="), frame: body },
        }
    }

    pub fn operation(&self) -> &str {
        match self {
            Self::Database { operation, .. } => operation,
            Self::Post { .. } => "PostToConnection",
        }
    }

    /// What `DynamoDB` is asked for, or the frame.
    pub fn body(&self) -> &Value {
        match self {
            Self::Database { body, .. } => body,
            Self::Post { frame, .. } => frame,
        }
    }

    pub fn writes(&self) -> bool {
        !matches!(self.operation(), "GetItem" | "Query" | "Scan" | "PostToConnection")
    }

    /// A read that may be out of date.
    pub fn is_stale_read(&self) -> bool {
        matches!(self.operation(), "GetItem" | "Query" | "Scan") && self.body()["ConsistentRead"] != json!(true)
    }
}
