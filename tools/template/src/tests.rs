use super::*;

const TEMPLATE: &str = r#"
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  TokenIssuer: { Type: String }
  QueryStringTokens: { Type: String, Default: "off" }
  Stage: { Type: String, Default: v1 }
  Retain: { Type: String, Default: "no" }
Conditions:
  Retained: !Not [!Equals [!Ref Retain, "no"]]
  Loose: !Or [{ Condition: Retained }, !Equals [!Ref QueryStringTokens, "on"]]
Globals:
  Function:
    Runtime: provided.al2023
    MemorySize: 256
    Timeout: 10
    Environment: { Variables: { MESSAGES_TABLE: !Ref MessagesTable, RUST_LOG: info } }
Resources:
  AuthorizeFunction:
    Type: AWS::Serverless::Function
    Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: authorize } }
    Properties:
      CodeUri: functions/authorize/
      Policies: [!FindInMap [Not, Known, Here]]
      Environment:
        Variables:
          TOKEN_ISSUER: !Ref TokenIssuer
          RUST_LOG: debug
          LOOSE: !If [Loose, "yes", !Ref AWS::NoValue]
          RETAINED: !If [Retained, "yes", !Ref "AWS::NoValue"]
  SendFunction:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/send/
      Timeout: 15
      Environment:
        Variables:
          CONNECTIONS_ENDPOINT: !Sub https://${WebSocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}/${Stage}
          LONG: { "Fn::Join": ["-", [a, { Ref: Stage }]] }
          LITERAL: !Sub ["${!kept} ${local}", { local: !GetAtt MessagesTable.Arn }]
  GoneFunction: { Type: "AWS::Serverless::Function", Condition: Retained, Properties: { CodeUri: functions/gone/ } }
  WebSocketApi:
    Type: AWS::Serverless::WebSocketApi
    Properties:
      StageName: !Ref Stage
      RouteSelectionExpression: $request.body.action
      Auth: { AuthType: CUSTOM, AuthArn: !GetAtt AuthorizeFunction.Arn }
      Routes:
        $connect: { FunctionArn: !GetAtt SendFunction.Arn }
        send: { FunctionArn: { "Fn::GetAtt": [SendFunction, Arn] }, RouteResponseSelectionExpression: $default }
        ping: { FunctionArn: !GetAtt SendFunction.Arn, RouteResponseSelectionExpression: $default }
  SendResponse:
    Type: AWS::ApiGatewayV2::RouteResponse
    Properties: { ApiId: !Ref WebSocketApi, RouteId: !Ref WebSocketApiSendRoute, RouteResponseKey: $default }
  SendNowIntegration:
    Type: AWS::ApiGatewayV2::Integration
    Properties:
      ApiId: !Ref WebSocketApi
      IntegrationType: AWS_PROXY
      IntegrationUri: !Sub arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/${SendFunction.Arn}/invocations
  SendNowRoute:
    Type: AWS::ApiGatewayV2::Route
    Properties:
      ApiId: !Ref WebSocketApi
      RouteKey: send_now
      RouteResponseSelectionExpression: $default
      Target: !Sub integrations/${SendNowIntegration}
  SendNowResponse:
    Type: AWS::ApiGatewayV2::RouteResponse
    Properties: { ApiId: !Ref WebSocketApi, RouteId: !Ref SendNowRoute, RouteResponseKey: $default }
  MessagesTable:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      TimeToLiveSpecification: { AttributeName: expires_at, Enabled: true }
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }
      StreamSpecification: { StreamViewType: NEW_AND_OLD_IMAGES }
  NewMessages:
    Type: AWS::Lambda::EventSourceMapping
    Properties:
      EventSourceArn: !GetAtt MessagesTable.StreamArn
      FunctionName: !Ref SendFunction
      StartingPosition: TRIM_HORIZON
      BatchSize: 10
      MaximumBatchingWindowInSeconds: "5"
      MaximumRetryAttempts: -1
      MaximumRecordAgeInSeconds: 60
      BisectBatchOnFunctionError: true
      FunctionResponseTypes: [ReportBatchItemFailures]
      FilterCriteria: { Filters: [{ Pattern: '{"dynamodb":{"Keys":{"id":{"S":[{"exists":true}]}}}}' }] }
      DestinationConfig: { OnFailure: { Destination: !GetAtt GivenUp.Arn } }
  GivenUp:
    Type: AWS::SQS::Queue
"#;

fn parse(overrides: &[(&str, &str)]) -> anyhow::Result<Template> {
    let overrides = overrides.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Template::parse(TEMPLATE, &overrides)
}

#[test]
fn functions_merge_globals_and_resolve_their_environment() {
    let template = parse(&[("TokenIssuer", "http://issuer"), ("QueryStringTokens", "on"), ("Unknown", "x")]).unwrap();
    assert_eq!(template.functions.len(), 2, "a resource whose condition fails is not there");

    let authorize = &template.functions["AuthorizeFunction"];
    assert_eq!((authorize.binary.as_str(), authorize.memory_mb), ("authorize", 256));
    let environment: Vec<_> = authorize.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        environment,
        ["LOOSE=yes", "MESSAGES_TABLE=MessagesTable", "RUST_LOG=debug", "TOKEN_ISSUER=http://issuer"]
    );

    let send = &template.functions["SendFunction"];
    assert_eq!((send.binary.as_str(), send.timeout), ("send", Duration::from_secs(15)));
    assert_eq!(send.environment["CONNECTIONS_ENDPOINT"], "https://WebSocketApi.execute-api.us-east-1.amazonaws.com/v1");
    assert_eq!(send.environment["LONG"], "a-v1");
    assert_eq!(send.environment["LITERAL"], "${kept} arn:aws:local:us-east-1:000000000000:MessagesTable");
}

#[test]
fn a_route_replies_only_with_a_response_and_its_expression() {
    let api = parse(&[]).unwrap().api;
    assert_eq!((api.stage.as_str(), api.route_member.as_str()), ("v1", "action"));
    assert_eq!(api.authorizer.as_deref(), Some("AuthorizeFunction"));
    let replies: Vec<_> = api.routes.iter().map(|(key, route)| (key.as_str(), route.replies)).collect();
    assert_eq!(replies, [("$connect", false), ("ping", false), ("send", true), ("send_now", true)]);
    assert!(api.routes.values().all(|route| route.function == "SendFunction"));
}

#[test]
fn a_table_becomes_a_create_request_and_its_ttl() {
    let table = parse(&[]).unwrap().tables.remove(0);
    assert_eq!((table.name.as_str(), table.ttl_attribute.as_deref()), ("MessagesTable", Some("expires_at")));
    let members: Vec<_> = table.create.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["AttributeDefinitions", "BillingMode", "KeySchema", "StreamSpecification", "TableName"]);
    assert_eq!(table.create["StreamSpecification"]["StreamEnabled"], true);
}

#[test]
fn a_mapping_names_its_table_and_function_and_minus_one_is_no_limit() {
    let mapping = parse(&[]).unwrap().mappings.remove(0);
    let expected = Mapping {
        logical_id: "NewMessages".to_owned(),
        table: "MessagesTable".to_owned(),
        function: "SendFunction".to_owned(),
        batch_size: 10,
        window: Duration::from_secs(5),
        retries_max: None,
        age_max: Some(Duration::from_mins(1)),
        bisects: true,
        reports_failures: true,
        patterns: vec![Pattern::parse(r#"{"dynamodb":{"Keys":{"id":{"S":[{"exists":true}]}}}}"#).unwrap()],
        on_failure: Some("GivenUp".to_owned()),
    };
    assert_eq!(mapping, expected);
}

#[test]
fn errors_say_where() {
    let error = |from, to| {
        let text = TEMPLATE.replace(from, to);
        format!("{:#}", Template::parse(&text, &Overrides::new()).unwrap_err())
    };
    assert_eq!(
        error("!Ref TokenIssuer", "!Ref Nobody"),
        "AuthorizeFunction.Properties.Environment.Variables.TOKEN_ISSUER.Ref: nothing is called Nobody"
    );
    assert!(error("!Ref TokenIssuer", "!ImportValue x").contains("TOKEN_ISSUER.Fn::ImportValue: this intrinsic"));
    assert!(error("!GetAtt AuthorizeFunction.Arn", "!GetAtt MessagesTable.Arn").contains("no function"));
    assert!(error("FunctionName: !Ref SendFunction", "FunctionName: !Ref Stage").contains("no function"));
    assert!(error("{ StreamViewType: NEW_AND_OLD_IMAGES }", "!Ref AWS::NoValue").contains("no table with a stream"));
    assert!(error("TRIM_HORIZON", "LATEST").contains("only TRIM_HORIZON is known here"));
    assert!(error("CodeUri: functions/send/", "Code: x").starts_with("SendFunction.Properties"));
}
