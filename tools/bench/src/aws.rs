//! DynamoDB and @connections in this process. Each call has a counted cost and a given duration, on tokio's clock.

use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use serde_json::{Value, json};
use testkit::cloud::Cloud;
use testkit::{AwsCall, Connector, dynamodb_config, management_config, s3_config, sns_config, sqs_config};
use tokio::time::{Instant, sleep};

/// Request units, as DynamoDB bills them on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Units {
    pub table_reads: f64,
    pub index_reads: f64,
    pub table_writes: f64,
    pub index_writes: f64,
}

impl Units {
    pub fn reads(&self) -> f64 {
        self.table_reads + self.index_reads
    }

    pub fn writes(&self) -> f64 {
        self.table_writes + self.index_writes
    }
}

impl AddAssign for Units {
    fn add_assign(&mut self, other: Self) {
        self.table_reads += other.table_reads;
        self.index_reads += other.index_reads;
        self.table_writes += other.table_writes;
        self.index_writes += other.index_writes;
    }
}

/// A finished call with its cost and times.
#[derive(Clone, Debug)]
pub struct MeasuredCall {
    pub operation: String,
    pub units: Units,
    pub began: Instant,
    pub ended: Instant,
}

/// How long a call takes.
pub type Pace = fn(operation: &str, rng: &mut fastrand::Rng) -> Duration;

/// The median of a call, by operation, with a long tail: p95 is 2.8 times the median, p99 4.3 times.
pub(crate) fn as_on_aws(operation: &str, rng: &mut fastrand::Rng) -> Duration {
    let median_ms = match operation {
        "TransactWriteItems" => 10.0,
        "PostToConnection" => 8.0,
        _ => 4.0,
    };
    // Log-normal, like a product of many small delays.
    Duration::from_secs_f64(median_ms / 1_000.0 * (0.63 * normal(rng)).exp())
}

/// Returns a normally distributed number, by Box and Muller.
pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Clones are the same AWS.
#[derive(Clone)]
pub struct Aws(Arc<Mutex<Inner>>);

struct Inner {
    cloud: Cloud,
    calls: Vec<MeasuredCall>,
    pace: Option<Pace>,
    rng: fastrand::Rng,
}

impl Aws {
    /// Without a pace calls take no time at all.
    pub fn new(pace: Option<Pace>) -> Self {
        Self::of(Cloud::new(), pace)
    }

    /// With push to phones.
    pub fn ringing() -> Self {
        Self::of(Cloud::streaming(), None)
    }

    fn of(cloud: Cloud, pace: Option<Pace>) -> Self {
        let inner = Inner { cloud, calls: Vec::new(), pace, rng: fastrand::Rng::with_seed(1) };
        Self(Arc::new(Mutex::new(inner)))
    }

    pub fn with_cloud<T>(&self, look: impl FnOnce(&mut Cloud) -> T) -> T {
        look(&mut self.lock().cloud)
    }

    /// The calls since the last look.
    pub fn calls(&self) -> Vec<MeasuredCall> {
        std::mem::take(&mut self.lock().calls)
    }

    pub fn dynamodb_client(&self) -> dynamodb::Client {
        dynamodb::Client::from_conf(dynamodb_config(self.connector()).build())
    }

    pub fn management_client(&self) -> management::Client {
        management::Client::from_conf(management_config(self.connector()).build())
    }

    pub fn s3_client(&self) -> aws_sdk_s3::Client {
        aws_sdk_s3::Client::from_conf(s3_config(self.connector()).build())
    }

    pub fn sns_client(&self) -> aws_sdk_sns::Client {
        aws_sdk_sns::Client::from_conf(sns_config(self.connector()).build())
    }

    pub fn sqs_client(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::from_conf(sqs_config(self.connector()).build())
    }

    fn connector(&self) -> Connector {
        let aws = self.clone();
        Connector::new(move |call| aws.clone().answer(call))
    }

    async fn answer(self, mut call: AwsCall) -> Option<(u16, String)> {
        if let AwsCall::Database { body, .. } = &mut call {
            body["ReturnConsumedCapacity"] = json!("INDEXES");
        }
        let began = Instant::now();
        let delay = {
            let Inner { pace, rng, .. } = &mut *self.lock();
            pace.map(|pace| pace(call.operation(), rng))
        };
        // The effect comes after half of the time.
        if let Some(delay) = delay {
            sleep(delay / 2).await;
        }
        let (status, body) = self.with_cloud(|cloud| cloud.perform(&call));
        if let Some(delay) = delay {
            sleep(delay / 2).await;
        }
        let units = units(&call, status, &body);
        let operation = call.operation().to_owned();
        self.lock().calls.push(MeasuredCall { operation, units, began, ended: Instant::now() });
        Some((status, body))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics with it")
    }
}

/// Returns the cost that the reply reports. A refused write reports none and costs the same, as DynamoDB's guide states
/// (`WorkingWithItems`). An item of up to 1 KB is a unit. Two units in a transaction are an assumption.
pub fn units(call: &AwsCall, status: u16, body: &str) -> Units {
    if !matches!(call, AwsCall::Database { .. }) {
        return Units::default();
    }
    if status != 200 {
        let refused = call.body()["TransactItems"].as_array().map_or(1.0, |items| 2.0 * items.len() as f64);
        return Units { table_writes: if call.writes() { refused } else { 0.0 }, ..Units::default() };
    }
    let answer: Value = serde_json::from_str(body).expect("an answer is JSON");
    let consumed = &answer["ConsumedCapacity"];
    let tables = consumed.as_array().cloned().unwrap_or_else(|| vec![consumed.clone()]);
    let mut units = Units::default();
    for table in tables {
        let of = |holder: &Value| holder["CapacityUnits"].as_f64().unwrap_or_default();
        let indexes = table["LocalSecondaryIndexes"].as_object().into_iter().flatten().map(|(_, index)| of(index));
        let (table, indexes) = (of(&table["Table"]), indexes.sum::<f64>());
        units += if call.writes() {
            Units { table_writes: table, index_writes: indexes, ..Units::default() }
        } else {
            Units { table_reads: table, index_reads: indexes, ..Units::default() }
        };
    }
    units
}
