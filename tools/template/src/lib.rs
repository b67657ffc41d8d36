//! The routes, functions, tables, queues and event source mappings of `template.yaml`, with its intrinsics resolved for this
//! machine.

mod intrinsics;
mod item;
mod pattern;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use intrinsics::Scope;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use item::plain_item;
pub use pattern::Pattern;

/// The folder with the workspace's `Cargo.toml` and `template.yaml`.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Values for template parameters, by name. A name that the template does not have is ignored.
pub type Overrides = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// By logical id.
    pub functions: BTreeMap<String, Function>,
    pub api: Api,
    pub http: Option<HttpApi>,
    pub tables: Vec<Table>,
    pub mappings: Vec<Mapping>,
    pub queues: Vec<Queue>,
    pub queue_mappings: Vec<QueueMapping>,
    pub buckets: Vec<Bucket>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The Cargo binary that the function runs.
    pub binary: String,
    pub memory_mb: u32,
    pub timeout: Duration,
    pub environment: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    pub logical_id: String,
    pub stage: String,
    /// The member of a message's JSON body that names its route.
    pub route_member: String,
    /// By route key.
    pub routes: BTreeMap<String, Route>,
    /// The logical id of the authorizer's function.
    pub authorizer: Option<String>,
    pub throttle: Option<Throttle>,
}

/// The API of requests over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpApi {
    pub logical_id: String,
    /// The function's logical id, by route key: `POST /v1/send`.
    pub routes: BTreeMap<String, String>,
    /// The logical id of the authorizer's function.
    pub authorizer: String,
    pub throttle: Option<Throttle>,
    pub cors: Cors,
}

/// How many requests each route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    pub per_second: u32,
    /// Requests that may exceed the rate for a moment.
    pub burst: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The logical id of the function.
    pub function: String,
    /// A route response sends the function's reply to the client. Without one, API Gateway drops the reply.
    pub replies: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub logical_id: String,
    pub name: String,
    /// The body of a `CreateTable` request.
    pub create: Value,
    pub ttl_attribute: Option<String>,
}

/// A bucket of S3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    pub logical_id: String,
    pub cors: Cors,
}

/// The requests that web pages may send to a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cors {
    pub origins: Vec<String>,
    pub methods: Vec<String>,
    /// Headers that a request may have.
    pub headers: Vec<String>,
    /// Headers of a response that a page may read.
    pub exposed: Vec<String>,
}

/// Invokes a function with the changes of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub logical_id: String,
    /// The logical id of the table.
    pub table: String,
    /// The logical id of the function.
    pub function: String,
    /// Records in one invocation, at most.
    pub batch_size: usize,
    /// How long records are collected, from the end of the invocation before.
    pub window: Duration,
    /// `None`: as often as the age allows.
    pub retries_max: Option<u32>,
    /// Older records are dropped. `None`: as long as the stream keeps them.
    pub age_max: Option<Duration>,
    /// Whether a batch that failed is tried again in two halves.
    pub bisects: bool,
    /// The function's reply lists the failed records.
    pub reports_failures: bool,
    /// A record is for the function if one of these fits. None: all are.
    pub patterns: Vec<Pattern>,
    /// The logical id of the destination of records that failed after all retries.
    pub on_failure: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub logical_id: String,
    /// A queue that is not FIFO is known by its name only.
    pub is_fifo: bool,
    /// For how long who has received a message has it alone.
    pub visibility: Duration,
    /// Where a message goes that was received more often than that: the logical id of that queue.
    pub redrive: Option<(String, u32)>,
    /// Whether a message's id need be its own only among those of its group.
    pub deduplicates_in_group: bool,
}

/// Invokes a function with the messages of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueMapping {
    pub logical_id: String,
    /// The logical id of the queue.
    pub queue: String,
    /// The logical id of the function.
    pub function: String,
    /// Messages in one invocation, at most.
    pub batch_size: usize,
    /// Concurrent invocations, at most. `None`: as many as there are groups.
    pub concurrency_max: Option<usize>,
    /// The function's reply lists the failed messages.
    pub reports_failures: bool,
}

impl Template {
    pub fn load(path: &Path, overrides: &Overrides) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, overrides).with_context(|| format!("in {}", path.display()))
    }

    /// The workspace's own, with each parameter's default.
    pub fn of_workspace() -> anyhow::Result<Self> {
        Self::load(&workspace_root().join("template.yaml"), &Overrides::new())
    }

    pub fn parse(text: &str, overrides: &Overrides) -> anyhow::Result<Self> {
        let document = intrinsics::to_json(serde_yaml_ng::from_str(text)?)?;
        let resources = section(&document, "Resources");
        let api_id = only_api(resources)?;
        let mut scope = Scope::new(&document, overrides);
        for key in section(&document, &format!("Resources/{api_id}/Properties/Routes")).keys() {
            scope.define(&route_logical_id(api_id, key));
        }

        let globals = document.pointer("/Globals/Function").cloned().unwrap_or_else(|| json!({}));
        let mut functions = BTreeMap::new();
        let mut tables = Vec::new();
        let (mut mappings, mut queues, mut queue_mappings) = (Vec::new(), Vec::new(), Vec::new());
        let mut buckets = Vec::new();
        for (id, resource) in resources {
            if !scope.exists(resource, id)? {
                continue;
            }
            match kind(resource) {
                "AWS::Serverless::Function" => {
                    functions.insert(id.clone(), function(&scope, &globals, id, resource)?);
                }
                "AWS::DynamoDB::Table" => tables.push(table(&scope, id, resource)?),
                "AWS::SQS::Queue" => queues.push(queue(&scope, id, resource)?),
                "AWS::Lambda::EventSourceMapping" if is_of_queue(&scope, resources, id, resource)? => {
                    queue_mappings.push(queue_mapping(&scope, id, resource)?);
                }
                "AWS::S3::Bucket" => buckets.push(bucket(&scope, id, resource)?),
                "AWS::Lambda::EventSourceMapping" => mappings.push(mapping(&scope, id, resource)?),
                _ => {}
            }
        }
        let api = api(&scope, resources, api_id)?;
        let http = http_api(&scope, resources)?;
        for target in api.routes.values().map(|route| &route.function).chain(&api.authorizer) {
            ensure!(functions.contains_key(target), "{api_id} names {target}, which is no function of the template");
        }
        for mapping in &mappings {
            let Mapping { logical_id, table, function, .. } = mapping;
            ensure!(
                functions.contains_key(function),
                "{logical_id} names {function}, which is no function of the template"
            );
            let streams =
                |found: &&Table| found.logical_id == *table && found.create.get("StreamSpecification").is_some();
            ensure!(
                tables.iter().any(|table| streams(&table)),
                "{logical_id} names {table}, which is no table with a stream"
            );
        }
        for QueueMapping { logical_id, function, .. } in &queue_mappings {
            ensure!(
                functions.contains_key(function),
                "{logical_id} names {function}, which is no function of the template"
            );
        }
        Ok(Self { functions, api, http, tables, mappings, queues, queue_mappings, buckets })
    }
}

fn section<'a>(document: &'a Value, path: &str) -> &'a Map<String, Value> {
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    document.pointer(&format!("/{path}")).and_then(Value::as_object).unwrap_or(&EMPTY)
}

fn kind(resource: &Value) -> &str {
    resource.get("Type").and_then(Value::as_str).unwrap_or_default()
}

fn only_api(resources: &Map<String, Value>) -> anyhow::Result<&str> {
    let mut apis = resources.iter().filter(|(_, resource)| kind(resource) == "AWS::Serverless::WebSocketApi");
    match (apis.next(), apis.next()) {
        (Some((id, _)), None) => Ok(id),
        (None, _) => bail!("Resources has no AWS::Serverless::WebSocketApi"),
        (Some((one, _)), Some((other, _))) => bail!("one WebSocket API can be served, not both {one} and {other}"),
    }
}

/// The id that SAM gives to the route it generates.
fn route_logical_id(api_id: &str, key: &str) -> String {
    let mut letters = key.trim_start_matches('$').chars();
    let capitalized: String =
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters.flat_map(char::to_lowercase)).collect();
    format!("{api_id}{capitalized}Route")
}

/// Resolves only the named properties: others may use intrinsics that are not known here.
fn properties<T: DeserializeOwned>(scope: &Scope, at: &str, resource: &Value, names: &[&str]) -> anyhow::Result<T> {
    let at = format!("{at}.Properties");
    let wanted: Map<String, Value> = section(resource, "Properties")
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let resolved = scope.resolve(&Value::Object(wanted), &at)?.unwrap_or_default();
    serde_json::from_value(resolved).with_context(|| at)
}

/// A logical id out of an ARN made from one, or as it is.
fn logical_id(arn: &str) -> String {
    arn.rsplit(':').next().unwrap_or(arn).to_owned()
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FunctionProperties {
    code_uri: String,
    #[serde(default = "memory_mb_default")]
    memory_size: u32,
    #[serde(default = "timeout_s_default")]
    timeout: u64,
    #[serde(default)]
    environment: EnvironmentProperties,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct EnvironmentProperties {
    variables: BTreeMap<String, Value>,
}

fn memory_mb_default() -> u32 {
    128
}

fn timeout_s_default() -> u64 {
    3
}

fn function(scope: &Scope, globals: &Value, id: &str, resource: &Value) -> anyhow::Result<Function> {
    let mut merged = json!({ "Properties": globals });
    merge(&mut merged, &json!({ "Properties": resource.get("Properties") }));
    let properties: FunctionProperties =
        properties(scope, id, &merged, &["CodeUri", "MemorySize", "Timeout", "Environment"])?;
    let binary = resource.pointer("/Metadata/BuildProperties/Binary").and_then(Value::as_str);
    let folder = properties.code_uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(Function {
        binary: binary.unwrap_or(folder).to_owned(),
        memory_mb: properties.memory_size,
        timeout: Duration::from_secs(properties.timeout),
        environment: properties
            .environment
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), intrinsics::text(value)))
            .collect(),
    })
}

/// SAM merges Globals into a function member by member; the function's own value wins.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ApiProperties {
    #[serde(default = "stage_default")]
    stage_name: String,
    route_selection_expression: String,
    #[serde(default)]
    auth: AuthProperties,
    #[serde(default)]
    default_route_settings: RouteSettings,
    routes: BTreeMap<String, RouteProperties>,
}

/// Parameters come as text, whatever their type.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct RouteSettings {
    throttling_rate_limit: Option<Value>,
    throttling_burst_limit: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct AuthProperties {
    auth_arn: Option<String>,
    #[serde(default)]
    identity_source: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RouteProperties {
    function_arn: String,
    route_response_selection_expression: Option<String>,
}

fn stage_default() -> String {
    "default".to_owned()
}

fn api(scope: &Scope, resources: &Map<String, Value>, id: &str) -> anyhow::Result<Api> {
    let names = ["StageName", "RouteSelectionExpression", "Auth", "DefaultRouteSettings", "Routes"];
    let properties: ApiProperties = properties(scope, id, resources.get(id).unwrap_or(&Value::Null), &names)?;
    let expression = &properties.route_selection_expression;
    let Some(member) = expression.strip_prefix("$request.body.").filter(|member| !member.contains(['.', '{', '[']))
    else {
        bail!("{id}.Properties.RouteSelectionExpression: only $request.body.<member> is known here, not {expression}");
    };
    ensure!(properties.auth.identity_source.is_empty(), "{id}.Properties.Auth.IdentitySource is not known here");
    let responses = route_responses(scope, resources)?;
    let mut routes = own_routes(scope, resources, (id, &responses))?;
    let of_sam = properties.routes.into_iter().map(|(key, route)| {
        let has_response = responses.contains(&route_logical_id(id, &key));
        let replies = has_response && route.route_response_selection_expression.is_some();
        (key, Route { function: logical_id(&route.function_arn), replies })
    });
    routes.extend(of_sam);
    Ok(Api {
        logical_id: id.to_owned(),
        stage: properties.stage_name,
        route_member: member.to_owned(),
        routes,
        authorizer: properties.auth.auth_arn.as_deref().map(logical_id),
        throttle: throttle(&properties.default_route_settings),
    })
}

fn throttle(settings: &RouteSettings) -> Option<Throttle> {
    Some(Throttle {
        per_second: number(settings.throttling_rate_limit.as_ref())?,
        burst: number(settings.throttling_burst_limit.as_ref())?,
    })
}

/// A number, as it is or as text. `None` also where it is none of this type: -1 stands for no limit.
fn number<T: FromStr + TryFrom<u64>>(value: Option<&Value>) -> Option<T> {
    match value? {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_u64()?.try_into().ok(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RouteResponseProperties {
    route_id: String,
}

fn route_responses(scope: &Scope, resources: &Map<String, Value>) -> anyhow::Result<Vec<String>> {
    let mut route_ids = Vec::new();
    for (id, resource) in resources {
        if kind(resource) == "AWS::ApiGatewayV2::RouteResponse" && scope.exists(resource, id)? {
            route_ids.push(properties::<RouteResponseProperties>(scope, id, resource, &["RouteId"])?.route_id);
        }
    }
    Ok(route_ids)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OwnRouteProperties {
    api_id: String,
    route_key: String,
    target: String,
    route_response_selection_expression: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct IntegrationProperties {
    integration_uri: String,
}

/// The routes of an API that are resources of their own.
fn own_routes(
    scope: &Scope,
    resources: &Map<String, Value>,
    (api, responses): (&str, &[String]),
) -> anyhow::Result<BTreeMap<String, Route>> {
    let mut routes = BTreeMap::new();
    for (id, resource) in resources.iter().filter(|(_, resource)| kind(resource) == "AWS::ApiGatewayV2::Route") {
        let names = ["ApiId", "RouteKey", "Target", "RouteResponseSelectionExpression"];
        let route: OwnRouteProperties = properties(scope, id, resource, &names)?;
        if route.api_id != api || !scope.exists(resource, id)? {
            continue;
        }
        let integration = route.target.strip_prefix("integrations/").unwrap_or(&route.target);
        let of_integration = resources.get(integration).with_context(|| format!("{id}.Properties.Target"))?;
        let uri: IntegrationProperties = properties(scope, integration, of_integration, &["IntegrationUri"])?;
        let arn = uri.integration_uri.strip_suffix("/invocations").unwrap_or(&uri.integration_uri);
        let replies = responses.contains(id) && route.route_response_selection_expression.is_some();
        routes.insert(route.route_key, Route { function: logical_id(arn), replies });
    }
    Ok(routes)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HttpApiProperties {
    cors_configuration: HttpCors,
}

#[derive(Deserialize)]
struct HttpCors {
    #[serde(rename = "AllowOrigins")]
    origins: Value,
    #[serde(rename = "AllowMethods")]
    methods: Vec<String>,
    #[serde(rename = "AllowHeaders")]
    headers: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct StageProperties {
    default_route_settings: RouteSettings,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AuthorizerProperties {
    authorizer_uri: String,
}

/// Returns the API of requests over HTTP, with its stage and its authorizer.
fn http_api(scope: &Scope, resources: &Map<String, Value>) -> anyhow::Result<Option<HttpApi>> {
    let of_kind = |wanted: &str| resources.iter().find(|(_, resource)| kind(resource) == wanted);
    let Some((id, resource)) = of_kind("AWS::ApiGatewayV2::Api") else { return Ok(None) };
    if !scope.exists(resource, id)? {
        return Ok(None);
    }
    let HttpApiProperties { cors_configuration: cors } = properties(scope, id, resource, &["CorsConfiguration"])?;
    let (stage_id, stage) = of_kind("AWS::ApiGatewayV2::Stage").context("an HTTP API has a stage")?;
    let stage: StageProperties = properties(scope, stage_id, stage, &["DefaultRouteSettings"])?;
    let (authorizer_id, authorizer) =
        of_kind("AWS::ApiGatewayV2::Authorizer").context("an HTTP API has an authorizer")?;
    let authorizer: AuthorizerProperties = properties(scope, authorizer_id, authorizer, &["AuthorizerUri"])?;
    let arn = authorizer.authorizer_uri.strip_suffix("/invocations").unwrap_or(&authorizer.authorizer_uri);
    let routes = own_routes(scope, resources, (id, &[]))?;
    Ok(Some(HttpApi {
        logical_id: id.clone(),
        routes: routes.into_iter().map(|(key, route)| (key, route.function)).collect(),
        authorizer: logical_id(arn),
        throttle: throttle(&stage.default_route_settings),
        cors: Cors { origins: list(&cors.origins), methods: cors.methods, headers: cors.headers, exposed: vec![] },
    }))
}

/// A list of text comes as one text.
fn list(value: &Value) -> Vec<String> {
    intrinsics::text(value).split(',').map(|item| item.trim().to_owned()).collect()
}

const CREATE_TABLE: [&str; 7] = [
    "TableName",
    "KeySchema",
    "AttributeDefinitions",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "BillingMode",
    "ProvisionedThroughput",
];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TableProperties {
    #[serde(default)]
    time_to_live_specification: Option<TimeToLive>,
    stream_specification: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TimeToLive {
    attribute_name: Option<String>,
    enabled: bool,
}

fn table(scope: &Scope, id: &str, resource: &Value) -> anyhow::Result<Table> {
    let mut create: Map<String, Value> = properties(scope, id, resource, &CREATE_TABLE)?;
    let apart: TableProperties = properties(scope, id, resource, &["TimeToLiveSpecification", "StreamSpecification"])?;
    if let Some(mut stream) = apart.stream_specification {
        // CloudFormation implies a member that CreateTable requires.
        merge(&mut stream, &json!({ "StreamEnabled": true }));
        create.insert("StreamSpecification".to_owned(), stream);
    }
    let name = create.entry("TableName").or_insert_with(|| json!(id)).as_str().unwrap_or(id).to_owned();
    let ttl = apart.time_to_live_specification.filter(|ttl| ttl.enabled);
    Ok(Table {
        logical_id: id.to_owned(),
        name,
        create: Value::Object(create),
        ttl_attribute: ttl.and_then(|ttl| ttl.attribute_name),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BucketProperties {
    #[serde(default)]
    cors_configuration: CorsProperties,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct CorsProperties {
    cors_rules: Vec<CorsRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CorsRule {
    allowed_origins: Value,
    allowed_methods: Vec<String>,
    #[serde(default)]
    allowed_headers: Vec<String>,
    #[serde(default)]
    exposed_headers: Vec<String>,
}

fn bucket(scope: &Scope, id: &str, resource: &Value) -> anyhow::Result<Bucket> {
    let properties: BucketProperties = properties(scope, id, resource, &["CorsConfiguration"])?;
    let mut rules = properties.cors_configuration.cors_rules.into_iter();
    let rule = rules.next();
    ensure!(rules.next().is_none(), "{id}: one rule of CORS is known here");
    let cors = rule.map_or_else(Cors::default, |rule| Cors {
        origins: list(&rule.allowed_origins),
        methods: rule.allowed_methods,
        headers: rule.allowed_headers,
        exposed: rule.exposed_headers,
    });
    Ok(Bucket { logical_id: id.to_owned(), cors })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MappingProperties {
    event_source_arn: String,
    function_name: String,
    starting_position: Option<String>,
    batch_size: Option<Value>,
    maximum_batching_window_in_seconds: Option<Value>,
    maximum_retry_attempts: Option<Value>,
    maximum_record_age_in_seconds: Option<Value>,
    #[serde(default)]
    bisect_batch_on_function_error: bool,
    #[serde(default)]
    function_response_types: Vec<String>,
    #[serde(default)]
    filter_criteria: FilterCriteria,
    destination_config: Option<DestinationConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DestinationConfig {
    on_failure: Destination,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Destination {
    destination: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct FilterCriteria {
    #[serde(default)]
    filters: Vec<FilterPattern>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FilterPattern {
    pattern: String,
}

const MAPPING: [&str; 11] = [
    "EventSourceArn",
    "FunctionName",
    "StartingPosition",
    "BatchSize",
    "MaximumBatchingWindowInSeconds",
    "MaximumRetryAttempts",
    "MaximumRecordAgeInSeconds",
    "BisectBatchOnFunctionError",
    "FunctionResponseTypes",
    "FilterCriteria",
    "DestinationConfig",
];
/// The size of a stream's batch if the template does not set it.
const BATCH_SIZE_DEFAULT: usize = 100;

fn mapping(scope: &Scope, id: &str, resource: &Value) -> anyhow::Result<Mapping> {
    let properties: MappingProperties = properties(scope, id, resource, &MAPPING)?;
    let position = properties.starting_position.as_deref().unwrap_or_default();
    ensure!(
        position == "TRIM_HORIZON",
        "{id}.Properties.StartingPosition: only TRIM_HORIZON is known here, not {position}"
    );
    let seconds = |value: Option<&Value>| number(value).map(Duration::from_secs);
    let patterns = properties.filter_criteria.filters.iter().map(|filter| Pattern::parse(&filter.pattern));
    Ok(Mapping {
        logical_id: id.to_owned(),
        table: logical_id(&properties.event_source_arn),
        function: logical_id(&properties.function_name),
        batch_size: number(properties.batch_size.as_ref()).unwrap_or(BATCH_SIZE_DEFAULT),
        window: seconds(properties.maximum_batching_window_in_seconds.as_ref()).unwrap_or_default(),
        retries_max: number(properties.maximum_retry_attempts.as_ref()),
        age_max: seconds(properties.maximum_record_age_in_seconds.as_ref()),
        bisects: properties.bisect_batch_on_function_error,
        reports_failures: properties.function_response_types.iter().any(|kind| kind == "ReportBatchItemFailures"),
        patterns: patterns.collect::<anyhow::Result<_>>().with_context(|| id.to_owned())?,
        on_failure: properties.destination_config.map(|config| logical_id(&config.on_failure.destination)),
    })
}

fn is_of_queue(scope: &Scope, resources: &Map<String, Value>, id: &str, resource: &Value) -> anyhow::Result<bool> {
    let properties: SourceProperties = properties(scope, id, resource, &["EventSourceArn"])?;
    let source = resources.get(&logical_id(&properties.event_source_arn));
    Ok(source.is_some_and(|source| kind(source) == "AWS::SQS::Queue"))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SourceProperties {
    event_source_arn: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueProperties {
    #[serde(default)]
    fifo_queue: bool,
    #[serde(default = "visibility_s_default")]
    visibility_timeout: u64,
    redrive_policy: Option<RedrivePolicy>,
    deduplication_scope: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicy {
    dead_letter_target_arn: String,
    max_receive_count: u32,
}

fn visibility_s_default() -> u64 {
    30
}

fn queue(scope: &Scope, id: &str, resource: &Value) -> anyhow::Result<Queue> {
    let names = ["FifoQueue", "VisibilityTimeout", "RedrivePolicy", "DeduplicationScope"];
    let properties: QueueProperties = properties(scope, id, resource, &names)?;
    let redrive = properties.redrive_policy.map(|to| (logical_id(&to.dead_letter_target_arn), to.max_receive_count));
    Ok(Queue {
        logical_id: id.to_owned(),
        is_fifo: properties.fifo_queue,
        visibility: Duration::from_secs(properties.visibility_timeout),
        redrive,
        deduplicates_in_group: properties.deduplication_scope.as_deref() == Some("messageGroup"),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueMappingProperties {
    event_source_arn: String,
    function_name: String,
    batch_size: Option<Value>,
    #[serde(default)]
    function_response_types: Vec<String>,
    #[serde(default)]
    scaling_config: ScalingConfig,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct ScalingConfig {
    maximum_concurrency: Option<Value>,
}

/// The size of a queue's batch if the template does not set it.
const QUEUE_BATCH_SIZE_DEFAULT: usize = 10;

fn queue_mapping(scope: &Scope, id: &str, resource: &Value) -> anyhow::Result<QueueMapping> {
    let names = ["EventSourceArn", "FunctionName", "BatchSize", "FunctionResponseTypes", "ScalingConfig"];
    let properties: QueueMappingProperties = properties(scope, id, resource, &names)?;
    Ok(QueueMapping {
        logical_id: id.to_owned(),
        queue: logical_id(&properties.event_source_arn),
        function: logical_id(&properties.function_name),
        batch_size: number(properties.batch_size.as_ref()).unwrap_or(QUEUE_BATCH_SIZE_DEFAULT),
        concurrency_max: number(properties.scaling_config.maximum_concurrency.as_ref()),
        reports_failures: properties.function_response_types.iter().any(|kind| kind == "ReportBatchItemFailures"),
    })
}

#[cfg(test)]
mod tests;
