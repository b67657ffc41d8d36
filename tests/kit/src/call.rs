//! A call to AWS, as the service sees it.

use serde_json::{Value, json};

use crate::{fake_s3, fake_sns};

#[derive(Debug, Clone, PartialEq)]
pub enum AwsCall {
    /// To `DynamoDB`: `TransactWriteItems` and its body.
    Database { operation: String, body: Value },
    /// To SNS: `Publish` and its fields.
    Push { operation: String, body: Value },
    /// To SQS or `EventBridge`: `SendMessage` and its body.
    Queue { operation: String, body: Value },
    /// To S3: `HeadObject`, and what is in its path, query and headers.
    Object { operation: String, body: Value },
    /// A frame to a connection.
    Post { connection: String, frame: Value },
    /// The end of a connection.
    Close { connection: String },
}

impl AwsCall {
    /// From an HTTP request: its method, its headers by name, its URL, and its body.
    pub fn parse<'a>(method: &str, header: impl Fn(&str) -> Option<&'a str>, url: &str, body: &[u8]) -> Self {
        if let Some((operation, mut call)) = fake_s3::parse(method, &header, url) {
            if operation == "CompleteMultipartUpload" {
                call["sent"] = json!(String::from_utf8_lossy(body));
            }
            return Self::Object { operation: operation.to_owned(), body: call };
        }
        let target = header("x-amz-target");
        if body.starts_with(b"Action=") {
            let body = fake_sns::fields(body);
            return Self::Push { operation: body["Action"].as_str().unwrap_or_default().to_owned(), body };
        }
        // A post that only opens the connection to the service has no frame.
        let body = serde_json::from_slice(body).unwrap_or_default();
        let last = |text: &str, separator| text.rsplit(separator).next().unwrap_or_default().to_owned();
        if let Some(target) = target {
            let operation = last(target, '.');
            let is_of_queue = target.starts_with("AmazonSQS.") || target.starts_with("AWSEvents.");
            return if is_of_queue { Self::Queue { operation, body } } else { Self::Database { operation, body } };
        }
        let connection = last(url, '/').replace("%3D", "=");
        if method == "DELETE" { Self::Close { connection } } else { Self::Post { connection, frame: body } }
    }

    pub fn operation(&self) -> &str {
        match self {
            Self::Database { operation, .. }
            | Self::Push { operation, .. }
            | Self::Object { operation, .. }
            | Self::Queue { operation, .. } => operation,
            Self::Post { .. } => "PostToConnection",
            Self::Close { .. } => "DeleteConnection",
        }
    }

    /// The request to `DynamoDB`, SNS, SQS or S3, or the frame.
    pub fn body(&self) -> &Value {
        match self {
            Self::Database { body, .. }
            | Self::Push { body, .. }
            | Self::Object { body, .. }
            | Self::Queue { body, .. } => body,
            Self::Post { frame, .. } => frame,
            Self::Close { .. } => &Value::Null,
        }
    }

    pub fn writes(&self) -> bool {
        !matches!(
            self.operation(),
            "BatchGetItem"
                | "GetItem"
                | "Query"
                | "Scan"
                | "PostToConnection"
                | "Publish"
                | "HeadObject"
                | "ListParts"
                | "GetObject"
        )
    }

    /// Whether it reads or writes items of this table with this partition key.
    pub fn is_about(&self, table: &str, partition: &str) -> bool {
        let has_key = |of: &Value| of.as_object().is_some_and(|key| key.values().any(|value| value["S"] == partition));
        let names = |write: &Value| {
            let key = write.get("Key").or_else(|| write.get("Item"));
            write["TableName"] == table && key.is_some_and(has_key)
        };
        let body = self.body();
        match self.operation() {
            "BatchGetItem" => body["RequestItems"][table]["Keys"].as_array().into_iter().flatten().any(has_key),
            "TransactWriteItems" => {
                let writes = body["TransactItems"].as_array().into_iter().flatten();
                writes.filter_map(|write| write.as_object()?.values().next()).any(names)
            }
            "Query" => {
                let values = body["ExpressionAttributeValues"].as_object().into_iter().flatten();
                body["TableName"] == table && values.into_iter().any(|(_, value)| value["S"] == partition)
            }
            _ => names(body),
        }
    }

    /// Returns a `BatchGetItem` without the keys that contain this text, and those keys in the form of
    /// `UnprocessedKeys`.
    pub(crate) fn without_keys(&self, text: &str) -> (Self, Value) {
        let (mut body, mut unprocessed) = (self.body().clone(), json!({}));
        for (table, request) in body["RequestItems"].as_object_mut().into_iter().flatten() {
            let Some(keys) = request["Keys"].as_array_mut() else { continue };
            let is_hot = |key: &Value| key.as_object().is_some_and(|key| key.values().any(|value| value["S"] == text));
            let (hot, others): (Vec<Value>, Vec<Value>) = keys.drain(..).partition(is_hot);
            *keys = others;
            if !hot.is_empty() {
                let mut left = request.clone();
                left["Keys"] = json!(hot);
                unprocessed[table] = left;
            }
        }
        if let Some(tables) = body["RequestItems"].as_object_mut() {
            tables.retain(|_, request| request["Keys"].as_array().is_some_and(|keys| !keys.is_empty()));
        }
        (Self::Database { operation: self.operation().to_owned(), body }, unprocessed)
    }

    /// A read that may be out of date.
    pub fn is_stale_read(&self) -> bool {
        let consistent = |body: &Value| body["ConsistentRead"] == json!(true);
        match self.operation() {
            "GetItem" | "Query" | "Scan" => !consistent(self.body()),
            "BatchGetItem" => {
                !self.body()["RequestItems"].as_object().is_some_and(|tables| tables.values().all(consistent))
            }
            _ => false,
        }
    }
}
