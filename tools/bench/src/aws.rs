//! DynamoDB and @connections in this process, that count what a call costs and take as long as told, by tokio's clock.

use std::fmt;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};
use testkit::cloud::{Cloud, Request};
use testkit::{management_config, store_config};
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

/// One call, from when it was made until it was answered.
#[derive(Clone, Debug)]
pub struct Call {
    pub operation: String,
    pub units: Units,
    pub began: Instant,
    pub ended: Instant,
}

/// How long a call takes.
pub type Pace = fn(operation: &str, rng: &mut fastrand::Rng) -> Duration;

/// Clones are the same AWS.
#[derive(Clone)]
pub struct Aws(Arc<Mutex<Inner>>);

struct Inner {
    cloud: Cloud,
    calls: Vec<Call>,
    pace: Option<Pace>,
    rng: fastrand::Rng,
}

impl Aws {
    /// Without a pace calls take no time at all.
    pub fn new(pace: Option<Pace>) -> Self {
        let inner = Inner { cloud: Cloud::new(), calls: Vec::new(), pace, rng: fastrand::Rng::with_seed(1) };
        Self(Arc::new(Mutex::new(inner)))
    }

    pub fn with_cloud<T>(&self, look: impl FnOnce(&mut Cloud) -> T) -> T {
        look(&mut self.lock().cloud)
    }

    /// The calls since the last look.
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().calls)
    }

    pub fn store_client(&self) -> dynamodb::Client {
        dynamodb::Client::from_conf(store_config(self.clone()).build())
    }

    pub fn management_client(&self) -> management::Client {
        management::Client::from_conf(management_config(self.clone()).build())
    }

    async fn call(&self, mut request: Request) -> HttpResponse {
        let operation = match &mut request {
            Request::Post { .. } => "PostToConnection".to_owned(),
            Request::Store { operation, body } => {
                body["ReturnConsumedCapacity"] = json!("INDEXES");
                operation.clone()
            }
        };
        let began = Instant::now();
        let delay = {
            let Inner { pace, rng, .. } = &mut *self.lock();
            pace.map(|pace| pace(&operation, rng))
        };
        // It takes effect half way.
        if let Some(delay) = delay {
            sleep(delay / 2).await;
        }
        let (status, body) = self.with_cloud(|cloud| cloud.perform(&request));
        if let Some(delay) = delay {
            sleep(delay / 2).await;
        }
        let units = match &request {
            Request::Post { .. } => Units::default(),
            Request::Store { operation, body: asked } => units(operation, asked, status, &body),
        };
        self.lock().calls.push(Call { operation, units, began, ended: Instant::now() });
        HttpResponse::new(status.try_into().expect("an HTTP status"), SdkBody::from(body))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics with it")
    }
}

/// What the answer says it cost. A write that was refused says nothing, and costs what it would have, as DynamoDB's guide
/// has it (`WorkingWithItems`): a unit for an item of up to 1 KB; two in a transaction, where AWS does not say.
fn units(operation: &str, asked: &Value, status: u16, body: &str) -> Units {
    let writes = !matches!(operation, "GetItem" | "Query");
    if status != 200 {
        let refused = asked["TransactItems"].as_array().map_or(1.0, |items| 2.0 * items.len() as f64);
        return Units { table_writes: if writes { refused } else { 0.0 }, ..Units::default() };
    }
    let answer: Value = serde_json::from_str(body).expect("an answer is JSON");
    let consumed = &answer["ConsumedCapacity"];
    let tables = consumed.as_array().cloned().unwrap_or_else(|| vec![consumed.clone()]);
    let mut units = Units::default();
    for table in tables {
        let of = |holder: &Value| holder["CapacityUnits"].as_f64().unwrap_or_default();
        let indexes = table["LocalSecondaryIndexes"].as_object().into_iter().flatten().map(|(_, index)| of(index));
        let (table, indexes) = (of(&table["Table"]), indexes.sum::<f64>());
        units += if writes {
            Units { table_writes: table, index_writes: indexes, ..Units::default() }
        } else {
            Units { table_reads: table, index_reads: indexes, ..Units::default() }
        };
    }
    units
}

impl fmt::Debug for Aws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aws").finish_non_exhaustive()
    }
}

impl HttpClient for Aws {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Aws {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (aws, request) = (self.clone(), Request::of(&request));
        HttpConnectorFuture::new(async move { Ok(aws.call(request).await) })
    }
}
