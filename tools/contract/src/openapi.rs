//! `openapi.yaml`: the actions that have a route over HTTP, with the schemas of their frames.

use serde_json::{Value as Json, json};
use wire::HTTP_ACTIONS;

use crate::schema::names;

const SCHEMAS: &str = "./frames.schema.json#/definitions/";
/// The statuses of errors.
const ERRORS: [&str; 8] = ["400", "401", "403", "404", "409", "413", "429", "503"];

/// The document's text; `schema` is what [`crate::schema`] gave.
pub(crate) fn openapi(schema: &Json) -> String {
    let paths = names(schema, "Request").into_iter().filter_map(|name| {
        let request = &schema["definitions"][&name];
        let action = request["properties"]["action"]["const"].as_str().filter(|name| HTTP_ACTIONS.contains(name))?;
        Some((format!("/v1/{action}"), json!({ "post": operation(action, &name, &request["description"]) })))
    });
    let paths: serde_json::Map<String, Json> = paths.collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pigeonhole over HTTP",
            "version": "1.0.0",
            "description": "Single requests without a socket, where the deployment has HttpApi on. `action` may be left out.",
        },
        "servers": [{"url": "{HttpUrl}", "variables": {"HttpUrl": {"default": "http://127.0.0.1:3001"}}}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}},
    });
    let text = serde_yaml_ng::to_string(&document).expect("it can be written");
    format!("# Generated from the types in crates/wire by `just contract`.\n{text}")
}

fn operation(action: &str, name: &str, summary: &Json) -> Json {
    let content = |schema: Json| json!({"application/json": {"schema": schema}});
    let of = |name: &str| json!({ "$ref": format!("{SCHEMAS}{name}") });
    let error = json!({
        "description": "The error, or API Gateway's own without `type`",
        "content": content(json!({"anyOf": [of("ErrorFrame"), of("GatewayError")]})),
    });
    let mut responses: serde_json::Map<String, Json> =
        ERRORS.iter().map(|status| ((*status).to_owned(), error.clone())).collect();
    let reply = json!({"description": "The reply", "content": content(of(&name.replace("Request", "Reply")))});
    responses.insert("200".to_owned(), reply);
    json!({
        "operationId": action,
        "summary": summary,
        "parameters": [{"name": "X-Device-Id", "in": "header", "required": false, "schema": {"type": "string"}}],
        "requestBody": {"required": true, "content": content(of(name))},
        "responses": responses,
    })
}
