//! The template's tables, fresh and empty, in a database of their own.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use local::{Overrides, Table, Template, workspace_root};
use serde_json::Value;

use crate::{Recorder, plain_http, store_config};

pub struct Database {
    tables: Vec<Table>,
    engine: local::Database,
}

impl Database {
    pub async fn start() -> Self {
        let template = Template::load(&workspace_root().join("template.yaml"), &Overrides::new()).unwrap();
        let engine = local::Database::start(&template.tables, None, 0).await.unwrap();
        Self { tables: template.tables, engine }
    }

    pub fn endpoint(&self) -> String {
        self.engine.endpoint()
    }

    /// For a client that differs in something from [`Database::client`].
    pub fn config(&self) -> Builder {
        store_config(plain_http()).endpoint_url(self.endpoint())
    }

    pub fn client(&self) -> Client {
        Client::from_conf(self.config().build())
    }

    /// Its calls go through the recorder. It does not retry, so that each failure reaches the code under test.
    pub fn client_with(&self, recorder: &Recorder) -> Client {
        let config = self.config().http_client(recorder.clone()).retry_config(RetryConfig::disabled());
        Client::from_conf(config.build())
    }

    /// The name of the table with that logical id in the template.
    pub fn table_name(&self, logical_id: &str) -> &str {
        let mut tables = self.tables.iter();
        &tables.find(|table| table.logical_id == logical_id).expect("the template has no such table").name
    }

    /// All rows of a table as plain JSON.
    pub fn scan(&self, logical_id: &str) -> Vec<Value> {
        self.engine.rows(self.table_name(logical_id), usize::MAX).unwrap().expect("the table was created at the start")
    }
}
