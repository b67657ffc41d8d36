use super::*;

fn sns() -> Arc<Sns> {
    Sns::open(None, Log::new(Logs::Silent)).unwrap()
}

/// The result of a call, or the code and text of its error.
fn call(sns: &Sns, action: &str, parameters: &[(&str, &str)]) -> Result<String, String> {
    let pairs = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    sns.call(action, &Form(Query { pairs })).map_err(|error| format!("{}: {error}", error.code()))
}

fn create(sns: &Sns, platform: Platform, token: &str) -> Result<String, String> {
    create_with(sns, platform, token, &[])
}

fn create_with(sns: &Sns, platform: Platform, token: &str, more: &[(&str, &str)]) -> Result<String, String> {
    let application = platform.application();
    let parameters = [&[("PlatformApplicationArn", application.as_str()), ("Token", token)], more].concat();
    let result = call(sns, "CreatePlatformEndpoint", &parameters)?;
    Ok(result.replace("<EndpointArn>", "").replace("</EndpointArn>", ""))
}

fn enable(sns: &Sns, arn: &str, enabled: &str) -> Result<String, String> {
    let attribute = [("Attributes.entry.1.key", "Enabled"), ("Attributes.entry.1.value", enabled)];
    call(sns, "SetEndpointAttributes", &[&[("EndpointArn", arn)], &attribute[..]].concat())
}

fn publish(sns: &Sns, arn: &str, message: &Value) -> Result<String, String> {
    let message = message.to_string();
    call(sns, "Publish", &[("TargetArn", arn), ("MessageStructure", "json"), ("Message", &message)])
}

/// A message for Android.
fn android(data: &Value) -> Value {
    let payload = json!({ "fcmV1Message": { "validate_only": false, "message": { "data": data } } });
    json!({ "default": "New message", "GCM": payload.to_string() })
}

#[test]
fn an_endpoint_is_made_once_for_each_token_and_application() {
    let sns = sns();
    let arn = create(&sns, Platform::Gcm, "t1").unwrap();
    let (shape, id) = arn.rsplit_once('/').unwrap();
    assert_eq!(shape, "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/local");
    assert!(Uuid::parse_str(id).is_ok(), "{id}");
    assert_eq!(create(&sns, Platform::Gcm, "t1").unwrap(), arn);
    assert_ne!(create(&sns, Platform::Gcm, "t2").unwrap(), arn);
    assert_ne!(create(&sns, Platform::Apns, "t1").unwrap(), arn);
    let elsewhere = [("PlatformApplicationArn", "arn:aws:sns:us-east-1:000000000000:app/GCM/other"), ("Token", "t")];
    let refused = call(&sns, "CreatePlatformEndpoint", &elsewhere).unwrap_err();
    assert_eq!(refused, "NotFound: PlatformApplication does not exist");
}

#[test]
fn a_disabled_endpoint_is_returned_and_stays_disabled_until_it_is_enabled() {
    let sns = sns();
    let arn = create(&sns, Platform::Gcm, "t").unwrap();
    enable(&sns, &arn, "false").unwrap();
    assert_eq!(create(&sns, Platform::Gcm, "t").unwrap(), arn);
    let message = android(&json!({}));
    assert_eq!(publish(&sns, &arn, &message).unwrap_err(), "EndpointDisabled: Endpoint is disabled");
    let attributes = call(&sns, "GetEndpointAttributes", &[("EndpointArn", &arn)]).unwrap();
    assert!(attributes.contains("<key>Enabled</key><value>false</value>"), "{attributes}");
    enable(&sns, &arn, "true").unwrap();
    publish(&sns, &arn, &message).unwrap();
}

#[test]
fn other_attributes_are_refused_with_the_endpoint_in_the_text() {
    let sns = sns();
    let arn = create(&sns, Platform::Apns, "t").unwrap();
    let refused = create_with(&sns, Platform::Apns, "t", &[("CustomUserData", "bob")]).unwrap_err();
    let text = format!("Endpoint {arn} already exists with the same Token, but different attributes.");
    assert_eq!(refused, format!("InvalidParameter: Invalid parameter: Token Reason: {text}"));
    enable(&sns, &arn, "false").unwrap();
    let enabled = [("Attributes.entry.1.key", "Enabled"), ("Attributes.entry.1.value", "true")];
    assert!(create_with(&sns, Platform::Apns, "t", &enabled).unwrap_err().contains("different attributes"));
}

#[test]
fn a_deleted_endpoint_is_not_found_and_may_be_deleted_again() {
    let sns = sns();
    let arn = create(&sns, Platform::Gcm, "t").unwrap();
    for _ in 0..2 {
        call(&sns, "DeleteEndpoint", &[("EndpointArn", &arn)]).unwrap();
    }
    let gone = "InvalidParameter: Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified";
    assert_eq!(publish(&sns, &arn, &android(&json!({}))).unwrap_err(), gone);
    assert_eq!(enable(&sns, &arn, "true").unwrap_err(), "NotFound: Endpoint does not exist");
    assert_ne!(create(&sns, Platform::Gcm, "t").unwrap(), arn);
}

#[test]
fn a_disabled_application_takes_nothing() {
    let sns = sns();
    let arn = create(&sns, Platform::Gcm, "t").unwrap();
    let application = Platform::Gcm.application();
    let set = |enabled| {
        let attribute = [("Attributes.entry.1.key", "Enabled"), ("Attributes.entry.1.value", enabled)];
        let application = [("PlatformApplicationArn", application.as_str())];
        call(&sns, "SetPlatformApplicationAttributes", &[&application[..], &attribute].concat()).unwrap();
    };
    set("false");
    let refused = publish(&sns, &arn, &android(&json!({}))).unwrap_err();
    assert_eq!(refused, "PlatformApplicationDisabled: Platform application is disabled");
    set("true");
    publish(&sns, &arn, &android(&json!({}))).unwrap();
}

#[test]
fn messages_that_sns_or_the_platforms_refuse_are_refused() {
    let sns = sns();
    let (apple, android_arn) = (create(&sns, Platform::Apns, "t").unwrap(), create(&sns, Platform::Gcm, "t").unwrap());
    let long = "x".repeat(5000);
    for (arn, message, text) in [
        (&apple, json!({ "APNS": "{}" }), "Message Structure - No default entry in JSON message body"),
        (&apple, json!({ "default": 1, "APNS": "{}" }), "Message Structure - No default entry in JSON message body"),
        (&apple, json!({ "default": "x".repeat(MESSAGE_BYTES_MAX) }), "Message too long"),
        (
            &apple,
            json!({ "default": "", "APNS": json!({ "aps": { "alert": long } }).to_string() }),
            "Message Reason: Invalid notification for protocol APNS: Notification is too long",
        ),
        (
            &android_arn,
            android(&json!({ "preview": long })),
            "Message Reason: Invalid notification for protocol GCM: Notification data is larger than allowed limit",
        ),
        (
            &android_arn,
            json!({ "default": "", "GCM": json!({ "data": {} }).to_string() }),
            "Message Reason: Invalid notification for protocol GCM: Notification has no fcmV1Message",
        ),
    ] {
        assert_eq!(publish(&sns, arn, &message).unwrap_err(), format!("InvalidParameter: Invalid parameter: {text}"));
    }
    let plain = [("TargetArn", apple.as_str()), ("MessageStructure", "json"), ("Message", "no JSON")];
    assert!(call(&sns, "Publish", &plain).unwrap_err().contains("JSON message body failed to parse"));
}

#[test]
fn a_dead_token_is_found_out_by_the_first_push_and_refused_at_the_second() {
    let sns = sns();
    let arn = create(&sns, Platform::Gcm, "t").unwrap();
    let row = json!({ "user_id": "bob", "device_id": "d", "platform": "fcm", "endpoint_arn": arn });
    let message = android(&json!({ "type": "message", "conversation_id": "c", "seq": "1" }));
    publish(&sns, &arn, &message).unwrap();
    sns.with(|endpoints| crate::phones::kill(endpoints, &row));
    publish(&sns, &arn, &message).unwrap();
    assert_eq!(publish(&sns, &arn, &message).unwrap_err(), "EndpointDisabled: Endpoint is disabled");
    let shown = sns.with(|endpoints| crate::phones::shown(endpoints, "bob", &[row]));
    assert_eq!(shown["phones"][0]["notifications"], json!([]));
}

#[test]
fn endpoints_outlive_a_restart_with_the_tables() {
    let folder = std::env::temp_dir().join(format!("pigeonhole-sns-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let arn = create(&Sns::open(Some(&folder), Log::new(Logs::Silent)).unwrap(), Platform::Gcm, "t").unwrap();
    let again = Sns::open(Some(&folder), Log::new(Logs::Silent)).unwrap();
    assert_eq!(create(&again, Platform::Gcm, "t").unwrap(), arn);
    std::fs::remove_dir_all(folder).unwrap();
}
