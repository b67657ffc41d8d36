//! Writes `template.yaml` from the files of `stack/`, which a person reviews, and from the registry of actions. The
//! modules add what follows from them: routes and their responses, log groups, policies, tables, alarms, the dashboard.

mod alarms;
mod dashboard;
mod metric;
mod yaml;

use std::fs;
use std::path::Path;

use serde_yaml_ng::{Mapping, Value};
use wire::{ACTIONS, ActionSpec, HTTP_ACTIONS};

use self::yaml::{get_att, map, reference, sub, tag, text};

const HEADER: &str = "\
# Written by `cargo run --bin contract` from stack/*.yaml and from the actions of crates/wire/src/actions.rs. Change those:
# they say why as well.
";
const ENDPOINT: &str = "https://${WebSocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}/v1";

/// The text of `template.yaml`.
pub(crate) fn template(root: &Path) -> String {
    let read = |file: &str| -> Mapping {
        let text = fs::read_to_string(root.join("stack").join(file)).expect("it is in the tree");
        serde_yaml_ng::from_str(&text).unwrap_or_else(|err| panic!("stack/{file}: {err}"))
    };
    let mut template = read("base.yaml");
    let (functions, tables, alarms) = (read("functions.yaml"), read("tables.yaml"), read("alarms.yaml"));

    let resources = section(&mut template, "Resources");
    add_routes(resources);
    add_http_routes(resources);
    for (name, function) in &functions {
        add_function(resources, text(name), function.as_mapping().expect("a function is a map"));
    }
    for (name, entry) in &tables {
        resources.insert(name.clone(), table(entry));
    }
    for (name, alarm) in &alarms {
        resources.insert(alarms::id(text(name)).into(), alarms::alarm(text(name), alarm));
    }
    resources.insert("Dashboard".into(), dashboard::dashboard(&read("dashboard.yaml"), &alarms));

    let outputs = section(&mut template, "Outputs");
    for (name, table) in &tables {
        let output = map([("Description", table["output"].clone()), ("Value", reference(text(name)))]);
        outputs.insert(format!("{}Name", text(name)).into(), output);
    }
    format!("{HEADER}{}", yaml::document(&template))
}

fn section<'a>(template: &'a mut Mapping, name: &str) -> &'a mut Mapping {
    template.get_mut(name).and_then(Value::as_mapping_mut).expect("base.yaml has each section")
}

/// A route for each action, and for each route with a reply its response, which SAM does not make.
fn add_routes(resources: &mut Mapping) {
    // SAM makes no route whose key has an underscore.
    let is_own = |action: &&ActionSpec| action.name.contains('_');
    let routes = resources["WebSocketApi"]["Properties"]["Routes"].as_mapping_mut().expect("base.yaml has $connect");
    for action in ACTIONS.iter().filter(|action| !is_own(action)) {
        let function = get_att(&format!("{}.Arn", function_id(action.function)));
        let mut route = Mapping::from_iter([("FunctionArn".into(), function)]);
        if action.replies {
            route.insert(REPLIES.0.into(), REPLIES.1.into());
        }
        routes.insert(action.name.into(), route.into());
    }
    let replies = |(_, route): &(&Value, &Value)| route.get(REPLIES.0).is_some();
    let keys: Vec<String> = routes.iter().filter(replies).map(|(key, _)| capitalized(text(key))).collect();
    for key in keys {
        add_response(resources, &key, &format!("WebSocketApi{key}Route"));
    }
    for action in ACTIONS.iter().filter(is_own) {
        let id: String = action.name.split('_').map(capitalized).collect();
        add_own_route(resources, &id, action.name, &function_id(action.function));
        if action.replies {
            add_response(resources, &id, &format!("{id}Route"));
        }
    }
}

const REPLIES: (&str, &str) = ("RouteResponseSelectionExpression", "$default");

fn add_response(resources: &mut Mapping, id: &str, route_id: &str) {
    let response = map([
        ("ApiId", reference("WebSocketApi")),
        ("RouteId", reference(route_id)),
        ("RouteResponseKey", "$default".into()),
    ]);
    resources.insert(format!("{id}RouteResponse").into(), resource("AWS::ApiGatewayV2::RouteResponse", response));
}

/// A route as SAM makes it: with its integration and its permission.
fn add_own_route(resources: &mut Mapping, id: &str, key: &str, function: &str) {
    let lambda = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions";
    let caller = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${WebSocketApi}/v1";
    let integration = map([
        ("ApiId", reference("WebSocketApi")),
        ("IntegrationType", "AWS_PROXY".into()),
        ("IntegrationUri", sub(&format!("{lambda}/${{{function}.Arn}}/invocations"))),
    ]);
    let route = map([
        ("ApiId", reference("WebSocketApi")),
        ("RouteKey", key.into()),
        (REPLIES.0, REPLIES.1.into()),
        ("Target", sub(&format!("integrations/${{{id}Integration}}"))),
    ]);
    let permission = map([
        ("Action", "lambda:InvokeFunction".into()),
        ("FunctionName", reference(function)),
        ("Principal", "apigateway.amazonaws.com".into()),
        ("SourceArn", sub(&format!("{caller}/{key}"))),
    ]);
    resources.insert(format!("{id}Integration").into(), resource("AWS::ApiGatewayV2::Integration", integration));
    resources.insert(format!("{id}Route").into(), resource("AWS::ApiGatewayV2::Route", route));
    resources.insert(format!("{id}Permission").into(), resource("AWS::Lambda::Permission", permission));
}

/// A route over HTTP for each of its actions, and one for the operations of services; for each function an integration
/// and a permission.
fn add_http_routes(resources: &mut Mapping) {
    let of_actions = ACTIONS.iter().filter(|action| HTTP_ACTIONS.contains(&action.name));
    let routes = of_actions.map(|action| (action.name, action.function)).chain([(SERVICES, "backend")]);
    for (path, function) in routes {
        let (id, condition) = match path {
            SERVICES => ("Services".to_owned(), "HasServices"),
            _ => (capitalized(path), "HasHttp"),
        };
        let of_function = format!("Http{}Integration", capitalized(function));
        let route = map([
            ("ApiId", reference("HttpGateway")),
            ("RouteKey", format!("POST /v1/{path}").into()),
            ("AuthorizationType", "CUSTOM".into()),
            ("AuthorizerId", reference("HttpAuthorizer")),
            ("Target", sub(&format!("integrations/${{{of_function}}}"))),
        ]);
        add_if(resources, condition, format!("Http{id}Route"), "AWS::ApiGatewayV2::Route", route);
        if resources.contains_key(of_function.as_str()) {
            continue;
        }
        let lambda = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions";
        let function_id = function_id(function);
        let integration = map([
            ("ApiId", reference("HttpGateway")),
            ("IntegrationType", "AWS_PROXY".into()),
            ("IntegrationUri", sub(&format!("{lambda}/${{{function_id}.Arn}}/invocations"))),
            ("PayloadFormatVersion", "2.0".into()),
        ]);
        let permission = map([
            ("Action", "lambda:InvokeFunction".into()),
            ("FunctionName", reference(&function_id)),
            ("Principal", "apigateway.amazonaws.com".into()),
            ("SourceArn", sub("arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${HttpGateway}/*")),
        ]);
        add_if(resources, condition, of_function, "AWS::ApiGatewayV2::Integration", integration);
        let id = format!("Http{}Permission", capitalized(function));
        add_if(resources, condition, id, "AWS::Lambda::Permission", permission);
    }
}

/// The path of the operations of services.
const SERVICES: &str = "services/{op}";

fn add_if(resources: &mut Mapping, condition: &str, id: String, kind: &str, properties: Value) {
    let of_kind = map([("Type", kind.into()), ("Condition", condition.into()), ("Properties", properties)]);
    resources.insert(id.into(), of_kind);
}

/// The function and its log group: one that Lambda makes by itself keeps its logs for ever.
fn add_function(resources: &mut Mapping, name: &str, entry: &Mapping) {
    let logs_id = format!("{}Logs", capitalized(name));
    let logs = map([
        ("LogGroupName", sub(&format!("/aws/lambda/${{AWS::StackName}}/{name}"))),
        ("RetentionInDays", reference("LogRetentionDays")),
        ("Tags", tags()),
    ]);
    let mut properties = Mapping::new();
    properties.insert("CodeUri".into(), format!("functions/{name}/").into());
    // Lambda's own lines of each event, START, END and REPORT, cost as much as ours. RUST_LOG alone selects ours.
    let logging = [
        ("LogGroup", reference(&logs_id)),
        ("LogFormat", "JSON".into()),
        ("SystemLogLevel", "WARN".into()),
        ("ApplicationLogLevel", "TRACE".into()),
    ];
    properties.insert("LoggingConfig".into(), map(logging));
    let own = entry.iter().filter(|(key, _)| text(key).starts_with(char::is_uppercase));
    let elsewhere = ["Condition", "Variables", "Statements"];
    properties.extend(own.filter(|(key, _)| !elsewhere.contains(&text(key))).map(|(k, v)| (k.clone(), v.clone())));

    let mut variables = entry.get("Variables").and_then(Value::as_mapping).cloned().unwrap_or_default();
    if entry.contains_key("connections") {
        let endpoint = vec!["HasPublicUrl".into(), reference("PublicUrl"), sub(ENDPOINT)];
        variables.insert("CONNECTIONS_ENDPOINT".into(), tag("If", endpoint.into()));
    }
    if !variables.is_empty() {
        properties.insert("Environment".into(), map([("Variables", variables.into())]));
    }
    let statements = statements(entry);
    if !statements.is_empty() {
        let policy = map([("Version", "2012-10-17".into()), ("Statement", statements.into())]);
        properties.insert("Policies".into(), vec![policy].into());
    }
    let build = map([("BuildMethod", "rust-cargolambda".into()), ("BuildProperties", map([("Binary", name.into())]))]);
    let mut function = resource("AWS::Serverless::Function", properties.into());
    function["Metadata"] = build;
    let mut logs = resource("AWS::Logs::LogGroup", logs);
    if let Some(condition) = entry.get("Condition") {
        function["Condition"] = condition.clone();
        logs["Condition"] = condition.clone();
    }
    resources.insert(function_id(name).into(), function);
    resources.insert(logs_id.into(), logs);
}

fn statements(entry: &Mapping) -> Vec<Value> {
    let allow = |actions: Vec<Value>, resources: Value| {
        map([("Effect", "Allow".into()), ("Action", actions.into()), ("Resource", resources)])
    };
    let may = entry.get("may").and_then(Value::as_mapping).into_iter().flatten();
    let mut statements: Vec<Value> = may
        .map(|(resource, actions)| {
            let actions = actions.as_sequence().expect("a row lists its actions").iter().map(text);
            let of_service =
                |action: &str| if action.contains(':') { action.into() } else { format!("dynamodb:{action}") };
            let (resource, keys) = match text(resource).split_once(" of ") {
                Some((table, keys)) => (table, Some(keys)),
                None => (text(resource), None),
            };
            let mut statement = allow(actions.map(|action| of_service(action).into()).collect(), arn(resource));
            if let Some(keys) = keys {
                let keys: Vec<Value> = keys.split(", ").map(Value::from).collect();
                let of_keys = map([("dynamodb:LeadingKeys", keys.into())]);
                statement["Condition"] = map([("ForAllValues:StringLike", of_keys)]);
            }
            statement
        })
        .collect();
    if let Some(methods) = entry.get("connections").and_then(Value::as_sequence) {
        let arn = |method: &Value| {
            let api = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${WebSocketApi}";
            sub(&format!("{api}/v1/{}/@connections/*", text(method)))
        };
        let arns: Vec<Value> = methods.iter().map(arn).collect();
        statements.push(allow(vec!["execute-api:ManageConnections".into()], arns.into()));
    }
    statements.extend(entry.get("Statements").and_then(Value::as_sequence).into_iter().flatten().cloned());
    statements
}

/// `X` is the resource, `X.Attribute` an attribute of it, `X/path` what is below its ARN.
fn arn(resource: &str) -> Value {
    match resource.split_once('/') {
        _ if resource == "*" => resource.into(),
        Some((id, path)) => sub(&format!("${{{id}.Arn}}/{path}")),
        None if resource.contains('.') => get_att(resource),
        None => get_att(&format!("{resource}.Arn")),
    }
}

fn table(entry: &Value) -> Value {
    let key = entry["key"].as_mapping().expect("a table has a key");
    let indexes = entry.get("indexes").and_then(Value::as_mapping).cloned().unwrap_or_default();
    let ranges = indexes.values().flat_map(|index| index.as_mapping().expect("an index has its sort key"));
    let typed =
        |(name, kind): (&Value, &Value)| map([("AttributeName", name.clone()), ("AttributeType", kind.clone())]);
    let attributes: Vec<Value> = key.iter().chain(ranges).map(typed).collect();
    let schema = |names: &[&Value]| -> Value {
        let kinds = names.iter().zip(["HASH", "RANGE"]);
        let keys = kinds.map(|(name, kind)| map([("AttributeName", (*name).clone()), ("KeyType", kind.into())]));
        keys.collect::<Vec<_>>().into()
    };
    let keys: Vec<&Value> = key.keys().collect();
    let mut properties = Mapping::new();
    let mut set = |name: &str, value: Value| properties.insert(name.into(), value);
    set("BillingMode", "PAY_PER_REQUEST".into());
    set("AttributeDefinitions", attributes.into());
    set("KeySchema", schema(&keys));
    if !indexes.is_empty() {
        let local = |(name, index): (&Value, &Value)| {
            let range = index.as_mapping().and_then(|index| index.keys().next()).expect("an index has its sort key");
            let projection = map([("ProjectionType", "KEYS_ONLY".into())]);
            map([("IndexName", name.clone()), ("KeySchema", schema(&[keys[0], range])), ("Projection", projection)])
        };
        set("LocalSecondaryIndexes", indexes.iter().map(local).collect::<Vec<_>>().into());
    }
    if entry.get("expires").is_some() {
        set("TimeToLiveSpecification", map([("AttributeName", "expires_at".into()), ("Enabled", true.into())]));
    }
    if let Some(stream) = entry.get("stream") {
        set("StreamSpecification", stream.clone());
    }
    if let Some(class) = entry.get("class") {
        set("TableClass", class.clone());
    }
    let backup = if entry.get("backup").is_none_or(|backup| backup.as_bool() != Some(false)) {
        map([("PointInTimeRecoveryEnabled", true.into()), ("RecoveryPeriodInDays", reference("BackupDays"))])
    } else {
        map([("PointInTimeRecoveryEnabled", false.into())])
    };
    set("PointInTimeRecoverySpecification", backup);
    let bound = |condition: &str, parameter: &str| {
        tag("If", vec![condition.into(), reference(parameter), reference("AWS::NoValue")].into())
    };
    let units = map([
        ("MaxReadRequestUnits", bound("HasReadUnitsMax", "TableReadUnitsMax")),
        ("MaxWriteRequestUnits", bound("HasWriteUnitsMax", "TableWriteUnitsMax")),
    ]);
    set("OnDemandThroughput", tag("If", vec!["HasUnitsMax".into(), units, reference("AWS::NoValue")].into()));
    set("DeletionProtectionEnabled", reference("DeletionProtection"));
    set("Tags", tags());
    let mut table = resource("AWS::DynamoDB::Table", properties.into());
    table["DeletionPolicy"] = "Retain".into();
    table["UpdateReplacePolicy"] = "Retain".into();
    table
}

fn resource(kind: &str, properties: Value) -> Value {
    map([("Type", kind.into()), ("Properties", properties)])
}

fn tags() -> Value {
    vec![map([("Key", "application".into()), ("Value", "pigeonhole".into())])].into()
}

fn function_id(name: &str) -> String {
    format!("{}Function", capitalized(name))
}

/// As SAM makes ids of routes.
fn capitalized(name: &str) -> String {
    let mut letters = name.trim_start_matches('$').chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
