//! A call to AWS, as the service sees it.

use serde_json::{Value, json};

use crate::{fake_s3, fake_sns};

#[derive(Debug, Clone, PartialEq)]
pub enum AwsCall {
    /// To `DynamoDB`: `TransactWriteItems` and its body.
    Database { operation: String, body: Value },
    /// To SNS: `Publish` and its fields.
    Push { operation: String, body: Value },
    /// To SQS: `SendMessage` and its body.
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
            let is_of_queue = target.starts_with("AmazonSQS.");
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

    /// What `DynamoDB`, SNS, SQS or S3 is asked for, or the frame.
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
