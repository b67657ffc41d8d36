//! A drill for each alarm of `template.yaml`: what it is for happens, it rings, what its section of `docs/runbook.md` says is
//! done, it ends. In each drill the first period is a calm one, so that `..!!.` is: calm, two bad ones, and after the repair two
//! good ones; two bad ones of three ring.

mod drill;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use drill::{Drill, MESSAGES, ask};
use futures_util::future::join_all;
use serde_json::{Value, json};
use template::Template;
use testkit::{AwsCall, ConnectError, Fault, Network, PATIENCE, Phone, TestServer};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::backend::{publish, queue, settled, sqs};
use crate::failures::serve_keys;
use crate::filter::Filter;

/// An alarm that fires from the second bad period until the second good one.
const RANG: &str = "..!!.";

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn outage() {
    let mut drill = Drill::start().await;
    // A deployment that lost a variable: no function starts.
    let configure = |drill: &Drill, value: Option<&str>| {
        let functions = Template::of_workspace().unwrap().functions;
        let before = functions.keys().map(|name| drill.server.local().configure(name, "LOG_KEY", value));
        before.collect::<BTreeSet<_>>().pop_first().unwrap()
    };
    let key = configure(&drill, None);
    drill.periods(2).await;
    drill.assert_logged("message", "the environment variable LOG_KEY is not set").await;

    // "Take it back first."
    configure(&drill, key.as_deref());
    drill.all_is_well(2).await;
    drill.assert_rang(&[("function-errors", RANG), ("outage", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn outage_by_one_who_is_suspended() {
    let mut drill = Drill::start().await;
    let suspend = json!({"op": "suspend", "user_id": "mallory", "until": "2099-01-01T00:00:00Z"});
    assert_eq!(drill.admin(suspend).await, json!({"closed": 0}));
    for _ in 0..2 {
        for _ in 0..40 {
            assert_eq!(drill.connect("mallory").await.err(), Some(ConnectError(403)));
        }
        drill.periods(1).await;
    }
    let lines = drill.lines().await;
    assert!(lines.iter().any(|line| line["route"] == "$connect" && line["outcome"] == "forbidden"));
    let first = lines.iter().filter(|line| line.get("init_ms").is_some()).count();
    assert!((1..lines.len() / 2).contains(&first), "only the first line of a process has its start: {first}");

    // The token has ended, and the issuer gives no new one.
    for _ in 0..40 {
        assert_eq!(drill.server.connect("ended").await.err(), Some(ConnectError(403)));
    }
    drill.all_is_well(2).await;
    drill.assert_rang(&[("outage", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn unavailable() {
    let mut drill = Drill::start().await;
    let tables = drill.server.tables();
    #[expect(clippy::disallowed_methods, reason = "a backup is all of the table")]
    let rows = tables.scan().table_name("InboxTable").send().await.unwrap().items.unwrap();
    tables.delete_table().table_name("InboxTable").send().await.unwrap();
    drill.periods(2).await;
    drill.assert_logged("cause", "ResourceNotFoundException").await;
    drill.assert_logged("cause", "InboxTable").await;

    // "Restore it": stop the functions, copy all rows into a new table, and start them.
    let template = Template::of_workspace().unwrap();
    let reserve = |concurrency| {
        template.functions.keys().for_each(|name| drill.server.local().reserve(name, concurrency));
    };
    reserve(Some(0));
    let table = template.tables.iter().find(|table| table.name == "InboxTable").unwrap();
    let create = serde_json::from_value(table.create.clone()).unwrap();
    drill.server.local().database().engine().create_table(create).unwrap();
    for row in rows {
        tables.put_item().table_name("InboxTable").set_item(Some(row)).send().await.unwrap();
    }
    reserve(None);
    drill.all_is_well(2).await;
    assert_eq!(drill.bob.conversation("alice").await["last_seq"], 3 * MESSAGES, "what was stored before is there");
    drill.assert_rang(&[("outage", RANG), ("unavailable", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn posts_failed() {
    let mut drill = Drill::start().await;
    let posting = ["SendFunction", "DrainFunction", "ReadFunction"];
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nowhere = format!("http://{nobody}/v1");
    let endpoint = drill.server.local().configure(posting[0], "CONNECTIONS_ENDPOINT", Some(&nowhere)).unwrap();
    for function in posting {
        drill.server.local().configure(function, "CONNECTIONS_ENDPOINT", Some(&nowhere));
    }
    drill.periods(1).await;
    drill.assert_logged("message", "post to a connection failed").await;
    drill.assert_logged("error", "connect").await;
    for function in posting {
        drill.server.local().configure(function, "CONNECTIONS_ENDPOINT", Some(&endpoint));
    }
    // An operator has changed a role, and a load balancer replies without naming an error.
    let mut answers = [Fault::Status(403), Fault::Status(503)].into_iter().cycle();
    drill.break_calls(move |_, call| (call.operation() == "PostToConnection").then(|| answers.next().unwrap()));
    drill.periods(1).await;
    drill.assert_logged("error", "the answer was 403: service error: ForbiddenException").await;
    drill.assert_logged("error", "the answer was 503").await;
    // "They see the message with their next ping."
    drill.alice.send("bob", "unseen", "hi").await;
    assert!(drill.bob.pending().await);

    drill.repair_calls();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("outage", RANG), ("posts-failed", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn posts_failed_in_a_large_group() {
    let mut drill = Drill::start().await;
    let members: Vec<String> = (0..40).map(|number| format!("u{number}")).chain(["bob".to_owned()]).collect();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Club", "members": members});
    let group = ask(&mut drill.alice, create).await["result"]["conversation_id"].take();
    drill.server.groups_settled().await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nowhere = format!("http://{nobody}/v1");
    let endpoint = drill.server.local().configure("FanoutFunction", "CONNECTIONS_ENDPOINT", Some(&nowhere)).unwrap();
    for period in 0..2 {
        for number in 0..MESSAGES {
            let answer = ask(&mut drill.alice, say(&group, &format!("m{period}-{number}"))).await;
            assert_eq!(answer["type"], "reply", "it is stored");
            // Else the frames of several are one.
            drill.server.groups_settled().await;
        }
        drill.periods(1).await;
    }
    drill.server.local().configure("FanoutFunction", "CONNECTIONS_ENDPOINT", Some(&endpoint));
    drill.all_is_well(2).await;
    drill.assert_rang(&[("posts-failed", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn connects_failed() {
    let mut drill = Drill::start().await;
    let table = drill.server.local().configure("ConnectFunction", "CONNECTIONS_TABLE", Some("Renamed"));
    for _ in 0..2 {
        for _ in 0..MESSAGES {
            assert_eq!(drill.connect("carol").await.err(), Some(ConnectError(503)));
        }
        assert_eq!(drill.chat().await, Vec::<Value>::new(), "open sockets are not affected");
        drill.end_period().await;
    }
    drill.assert_logged("cause", "Renamed").await;

    drill.server.local().configure("ConnectFunction", "CONNECTIONS_TABLE", table.as_deref());
    drill.all_is_well(2).await;
    drill.assert_rang(&[("connects-failed", RANG), ("unavailable", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn connects_refused() {
    let mut drill = Drill::start().await;
    let audience = drill.server.local().configure("AuthorizeFunction", "TOKEN_AUDIENCE", Some("somebody-else"));
    for _ in 0..2 {
        for _ in 0..50 {
            assert_eq!(drill.connect("carol").await.err(), Some(ConnectError(403)));
        }
        assert_eq!(drill.chat().await, Vec::<Value>::new(), "open sockets hide it");
        drill.end_period().await;
    }
    drill.assert_logged("reason", "the issuer or audience is missing or another one").await;

    drill.server.local().configure("AuthorizeFunction", "TOKEN_AUDIENCE", audience.as_deref());
    drill.all_is_well(2).await;
    drill.assert_rang(&[("clients-throttled", RANG), ("connects-refused", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn clients_throttled() {
    // Room for the chat of all periods that follow, however fast it goes.
    const PER_S: u32 = 100;
    const BURST: u32 = 300;
    let limits = [("ThrottlingRateLimit", PER_S), ("ThrottlingBurstLimit", BURST)];
    let limits = limits.map(|(name, value)| (name.to_owned(), value.to_string()));
    let mut drill = Drill::start_with(|options| options.parameters.extend(limits)).await;
    let mut sockets = [drill.server.phone("mallory").await, drill.server.phone("mallory").await];
    let calm = drill.lines().await.len();
    for _ in 0..2 {
        let mut floods = 0;
        while floods < 5 || drill.sum("ClientError", "WebSocketApi").await < 50 {
            floods += 1;
            let flood = sockets.iter_mut().map(async |phone| {
                for _ in 0..200 {
                    phone.start(json!({"action": "ping"})).await;
                }
                for _ in 0..200 {
                    phone.wait_for(|frame| frame.get("connectionId").is_some() || frame["type"] == "reply").await;
                }
            });
            join_all(flood).await;
        }
        drill.periods(1).await;
    }

    // The table has the user of the busiest socket of these minutes.
    let mut requests: BTreeMap<String, u32> = BTreeMap::new();
    for line in drill.lines().await.iter().skip(calm) {
        if let Some(connection) = line["connection_id"].as_str() {
            *requests.entry(connection.to_owned()).or_default() += 1;
        }
    }
    let (busiest, _) = requests.into_iter().max_by_key(|(_, requests)| *requests).unwrap();
    let rows = drill.server.local().database().rows("ConnectionsTable", usize::MAX).unwrap().unwrap();
    let user = &rows.iter().find(|row| row["connection_id"] == busiest).unwrap()["user_id"];
    assert_eq!(user, "mallory");
    let suspend = json!({"op": "suspend", "user_id": user, "until": "2099-01-01T00:00:00Z"});
    assert_eq!(drill.admin(suspend).await, json!({"closed": 2}));
    for phone in &mut sockets {
        assert_eq!(phone.closed().await, Some(CloseCode::Normal));
    }
    // The stage has all of its room again when this has passed: nothing else says so.
    sleep(Duration::from_secs((BURST / PER_S).into())).await;
    assert_eq!(drill.connect("mallory").await.err(), Some(ConnectError(403)));
    drill.all_is_well(2).await;
    drill.assert_rang(&[("clients-throttled", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn silence() {
    let mut drill = Drill::start().await;
    // New connections fail; existing ones stay.
    let way = Network::to(&drill.server).await;
    let address = way.url().trim_start_matches("ws://").split('/').next().unwrap().to_owned();
    drop(way);
    for _ in 0..3 {
        assert!(tokio::net::TcpStream::connect(&address).await.is_err());
        assert_eq!(drill.chat().await, Vec::<Value>::new());
        drill.end_period().await;
    }

    // "Ends with the next connect."
    drill.all_is_well(2).await;
    drill.assert_rang(&[("silence", "...!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn issuer_unreachable() {
    let mut drill = Drill::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let jwks = format!("{}/.well-known/jwks.json", drill.server.local().http_url());
    let keys = drill.server.http.get(jwks).send().await.unwrap().text().await.unwrap();
    let issuer = tokio::spawn(serve_keys(listener, keys.clone()));
    drill.server.local().configure("AuthorizeFunction", "JWKS_URL", Some(&format!("http://{address}/")));
    assert_eq!(drill.connect("carol").await.err(), None);

    issuer.abort();
    assert!(issuer.await.unwrap_err().is_cancelled());
    assert_eq!(drill.connect("carol").await.err(), None, "processes that have keys go on with them");
    for period in 1..=2 {
        while drill.sum("events", "unreachable").await < 6 {
            // New ones have none.
            for pid in drill.server.local().sandboxes("AuthorizeFunction") {
                Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
            }
            assert_eq!(drill.connect("carol").await.err(), Some(ConnectError(500)));
        }
        assert_eq!(drill.chat().await, Vec::<Value>::new(), "who is connected stays");
        if period == 2 {
            let listener = TcpListener::bind(address).await.unwrap();
            tokio::spawn(serve_keys(listener, keys.clone()));
            // A process without keys refuses all users for two seconds before its next request.
            let admitted = async {
                while drill.connect("carol").await.is_err() {
                    sleep(Duration::from_millis(250)).await;
                }
            };
            timeout(PATIENCE, admitted).await.unwrap();
        }
        drill.end_period().await;
    }
    let lines = drill.lines().await;
    assert!(lines.iter().any(|line| line["route"] == "issuer" && line["cause"].is_string()));

    drill.all_is_well(2).await;
    drill.assert_rang(&[
        ("connects-failed", RANG),
        ("function-errors", RANG),
        ("issuer-unreachable", ".!!.."),
        ("unavailable", RANG),
    ]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn floods() {
    let rate = ("RequestRate".to_owned(), "1000+10/1s".to_owned());
    let mut drill = Drill::start_with(|options| options.parameters.extend([rate])).await;
    for period in 0..2 {
        for number in 0..7 {
            let user = format!("mallory-{period}-{number}");
            let mut phone = drill.server.phone(&user).await;
            // As if most of what they ask for went to other processes.
            drill.server.store_samples(&user).await;
            assert_eq!(phone.flood(r#"{"action":"ping"}"#).await, Some(CloseCode::Normal));
        }
        drill.periods(1).await;
    }
    drill.assert_logged("message", "a user is suspended for a flood of requests").await;
    // "An operator ends a suspension with `unsuspend`."
    assert_eq!(drill.connect("mallory-0-0").await.err(), Some(ConnectError(403)));
    drill.admin(json!({"op": "unsuspend", "user_id": "mallory-0-0"})).await;
    assert_eq!(drill.connect("mallory-0-0").await.err(), None);

    drill.all_is_well(2).await;
    drill.assert_rang(&[("floods", ".!!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn posts_paced() {
    let mut drill = Drill::start().await;
    let members: Vec<String> = (0..30).map(|number| format!("u{number}")).chain(["bob".to_owned()]).collect();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Club", "members": members});
    let group = ask(&mut drill.alice, create).await["result"]["conversation_id"].take();
    for member in &members[..30] {
        for number in 0..16 {
            drill.server.store_connection(member, &format!("{member}-{number}="), "4102444800000").await;
        }
    }
    // The posts to bob and alice are on time.
    drill.break_calls(|_, call| {
        let AwsCall::Post { connection, .. } = call else { return None };
        connection.starts_with('u').then_some(Fault::Delayed(Duration::from_secs(2)))
    });
    // A post that fails frees its place, so one message skips few frames.
    let skipped = async |drill: &Drill| -> u64 {
        drill
            .lines()
            .await
            .iter()
            .filter(|line| line["route"] == "send")
            .filter_map(|line| line["paced"].as_u64())
            .sum()
    };
    for period in 0..2 {
        let (before, mut number) = (skipped(&drill).await, 0);
        // The log keeps its latest lines, so a sum can fall.
        while skipped(&drill).await.saturating_sub(before) <= 100 {
            let answer = ask(&mut drill.alice, say(&group, &format!("m{period}-{number}"))).await;
            assert_eq!(answer["type"], "reply", "it is stored");
            number += 1;
        }
        drill.periods(1).await;
    }

    drill.repair_calls();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("outage", RANG), ("posts-failed", RANG), ("posts-paced", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn conflicts_given_up() {
    let mut drill = Drill::start().await;
    let mut crowd = [drill.server.phone("mallory").await, drill.server.phone("mallory").await];
    // Slow writes collide more.
    drill.break_calls(|_, call| {
        (call.operation() == "TransactWriteItems").then_some(Fault::Delayed(Duration::from_millis(20)))
    });
    for _ in 0..2 {
        while drill.sum("events", "conflict").await < 6 {
            let writing = crowd.iter_mut().map(async |phone| {
                let mut requests = Vec::new();
                for _ in 0..30 {
                    let id: String = std::iter::repeat_with(fastrand::lowercase).take(20).collect();
                    let send = json!({"action": "send", "to": "bob", "client_msg_id": id, "kind": "text", "body": "!"});
                    requests.push(phone.start(send).await);
                }
                for request in requests {
                    phone.answer(&request).await;
                }
            });
            join_all(writing).await;
        }
        drill.periods(1).await;
    }
    let lines = drill.lines().await;
    let given_up: Vec<_> = lines.iter().filter(|line| line["outcome"] == "conflict").collect();
    let of = |member: &str| given_up.iter().map(|line| line[member].to_string()).collect::<BTreeSet<_>>().len();
    assert_eq!((of("conversation"), of("connection_id")), (1, 2), "few sockets in one conversation");

    let suspend = json!({"op": "suspend", "user_id": "mallory", "until": "2099-01-01T00:00:00Z"});
    assert_eq!(drill.admin(suspend).await, json!({"closed": 2}));
    drill.all_is_well(2).await;
    drill.assert_rang(&[("conflicts-given-up", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn function_errors() {
    let mut drill = Drill::start().await;
    drill.break_calls(|_, call| (call.operation() == "TransactWriteItems").then_some(Fault::Killed));
    drill.periods(2).await;
    drill.assert_logged("message", "Runtime exited").await;

    // The last good version is back.
    drill.repair_calls();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("function-errors", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn function_throttles() {
    let mut drill = Drill::start().await;
    drill.server.local().reserve("SendFunction", Some(0));
    drill.periods(2).await;

    drill.server.local().reserve("SendFunction", None);
    drill.all_is_well(2).await;
    drill.assert_rang(&[("function-throttles", RANG), ("gateway-errors", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn table_throttles() {
    let mut drill = Drill::start().await;
    // The first try of each call is one too many, the second is not.
    let mut seen = Vec::new();
    drill.break_calls(move |_, call| {
        let one_table = call.body()["TableName"] == "InboxTable" && seen.len() < MESSAGES;
        (one_table && !seen.contains(call)).then(|| {
            seen.push(call.clone());
            Fault::Throttled
        })
    });
    drill.connect("carol").await.unwrap();
    assert_eq!(drill.chat().await, Vec::<Value>::new(), "slowness first");
    drill.end_period().await;
    drill.break_calls(|_, call| {
        (call.operation() == "TransactWriteItems").then_some(Fault::Cancelled(&["ThrottlingError"]))
    });
    drill.connect("carol").await.unwrap();
    assert_eq!(drill.chat().await.len(), MESSAGES, "a transaction is not tried again");
    assert_eq!(drill.sum("WriteThrottleEvents", "InboxTable").await, 6);
    drill.assert_logged("cause", "ThrottlingError").await;
    drill.end_period().await;

    // The traffic ends.
    drill.repair_calls();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("table-throttles", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn gateway_errors() {
    let mut drill = Drill::start().await;
    drill.server.local().permit("SendFunction", false);
    drill.periods(2).await;
    let answer = ask(&mut drill.alice, json!({"action": "send"})).await;
    assert_eq!(answer["message"], "Internal server error");

    drill.server.local().permit("SendFunction", true);
    drill.all_is_well(2).await;
    drill.assert_rang(&[("gateway-errors", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn pushes_failed() {
    let mut drill = Drill::start_with(|options| TestServer::ringing(options, 0)).await;
    let users: Vec<String> = (0..=MESSAGES).map(|n| format!("dave-{n}")).collect();
    for user in &users {
        let mut phone = drill.server.device(user, "pixel").await;
        phone.ok(json!({"action": "device", "platform": "fcm", "token": user})).await;
        phone.leave().await;
    }
    // The credentials that SNS has for Google have ended.
    enable_fcm(&drill, false).await;
    let server = Arc::clone(&drill.server);
    let given_up = server.local().queue("NotifyFailures").unwrap();
    for (number, period) in ["first", "second"].into_iter().enumerate() {
        for user in &users {
            drill.alice.send(user, period, "hi").await;
        }
        timeout(PATIENCE, until_pushes_failed(&drill, period)).await.expect("phones are not rung");
        let all_given_up = async {
            while given_up.len() < (number + 1) * users.len() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, all_given_up).await.expect("each is tried, and given up");
        if period == "second" {
            drill.assert_logged("cause", "PlatformApplicationDisabled").await;
            // "Enable the application", and check the failed events again.
            enable_fcm(&drill, true).await;
            replay_notifications(&server).await;
            for user in &users {
                assert_eq!(drill.server.phones(user).await[0]["notifications"][0]["seq"], 2, "{user}");
            }
        }
        drill.periods(1).await;
    }
    drill.all_is_well(2).await;
    drill.assert_rang(&[("notify-given-up", ".!..."), ("pushes-failed", RANG)]);
}

/// What `just replay notify` does.
async fn replay_notifications(server: &TestServer) {
    assert!(server.local().replay("NotifyFunction", "PendingStream", "NotifyFailures").await.unwrap());
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn notify_given_up() {
    let mut drill = Drill::start_with(|options| TestServer::ringing(options, 0)).await;
    let server = Arc::clone(&drill.server);
    let stream = server.pending_stream();
    let mut phone = server.device("dave", "pixel").await;
    phone.ok(json!({"action": "device", "platform": "fcm", "token": "dave"})).await;
    phone.leave().await;
    // The table answers notify nothing.
    drill.break_calls(|function, call| {
        (function == "NotifyFunction" && call.operation() == "BatchGetItem").then_some(Fault::Status(500))
    });
    stream.behind(Duration::from_secs(61));
    drill.alice.send("dave", "m1", "hi").await;
    until_partial(&drill, "notify").await;
    drill.periods(1).await;
    // The first may have begun in the period before, and its age is of when it began.
    until_partial(&drill, "notify").await;
    until_partial(&drill, "notify").await;
    // An hour has passed.
    stream.behind(Duration::from_hours(1) + Duration::from_secs(61));
    timeout(PATIENCE, stream.settled()).await.unwrap();
    drill.periods(1).await;
    let given_up = stream.given_up();
    assert!(!given_up.is_empty());
    assert!(!given_up[0].to_string().contains("dave"), "where in the stream, and no more");
    drill.repair_calls();
    stream.behind(Duration::ZERO);

    // "Look once more at what was given up."
    replay_notifications(&server).await;
    assert_eq!(server.phones("dave").await[0]["notifications"][0]["seq"], 1);
    drill.all_is_well(2).await;
    drill.assert_rang(&[("notify-behind", RANG), ("notify-given-up", "..!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn notify_behind() {
    let mut drill = Drill::start_with(|options| TestServer::ringing(options, 0)).await;
    let server = Arc::clone(&drill.server);
    let stream = server.pending_stream();
    let mut phone = server.device("dave", "pixel").await;
    phone.ok(json!({"action": "device", "platform": "fcm", "token": "dave"})).await;
    phone.leave().await;
    // An operator has disabled the mapping for more than a minute, twice.
    stream.behind(Duration::from_secs(61));
    for period in ["first", "second"] {
        stream.hold().await;
        let seq = drill.alice.send("dave", period, "hi").await["seq"].clone();
        stream.release();
        assert_eq!(server.phones("dave").await[0]["notifications"][0]["seq"], seq, "late, but it rings");
        drill.periods(1).await;
    }
    stream.behind(Duration::ZERO);
    drill.all_is_well(2).await;
    drill.assert_rang(&[("notify-behind", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn jobs_failed() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    drill.alice.send("dave", "m1", "hi").await;
    // The bar can't be written.
    drill.break_calls(|function, call| {
        let bars = function == "JobsFunction" && call.is_about("ConnectionsTable", " suspension");
        bars.then_some(Fault::Status(400))
    });
    let begun = drill.admin(json!({"op": "erase", "user_id": "dave"})).await;
    let job = begun["job_id"].clone();
    server.jobs_done().await;
    assert_eq!(drill.admin(json!({"op": "job", "job_id": job})).await["state"], "failed");
    assert_eq!(server.local().queue("JobsFailures").unwrap().messages()[0].0, json!({"job_id": job}).to_string());
    drill.periods(1).await;
    drill.repair_calls();

    // "After the repair, the job goes on."
    drill.admin(json!({"op": "job", "job_id": job, "again": true})).await;
    server.jobs_done().await;
    assert_eq!(drill.admin(json!({"op": "job", "job_id": job})).await["state"], "done");
    server.local().queue("JobsFailures").unwrap().purge();
    drill.all_is_well(3).await;
    drill.assert_rang(&[("jobs-failed", ".!...")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn events_given_up() {
    let mut drill = Drill::start_with(TestServer::publishing).await;
    let server = Arc::clone(&drill.server);
    let stream = server.local().mapping("EntryStream").unwrap();
    // The queue of the team's own servers refuses.
    drill.break_calls(|function, call| {
        (function == "PublishFunction" && call.operation() == "SendMessageBatch").then_some(Fault::Status(403))
    });
    stream.behind(Duration::from_secs(601));
    let sent = drill.alice.send("dave", "m1", "hi").await;
    until_partial(&drill, "publish").await;
    drill.periods(1).await;
    // The first may have begun in the period before, and its age is of when it began.
    until_partial(&drill, "publish").await;
    until_partial(&drill, "publish").await;
    // A day has passed.
    stream.behind(Duration::from_hours(23) + Duration::from_secs(601));
    timeout(PATIENCE, stream.settled()).await.unwrap();
    drill.periods(1).await;
    let given_up = stream.given_up();
    assert!(!given_up.is_empty());
    assert!(!given_up[0].to_string().contains("dm_"), "where in the stream, and no more");
    drill.repair_calls();
    stream.behind(Duration::ZERO);

    // "Replay the entries that your consumer lacks, then purge."
    let replay = json!({"op": "replay", "conversation_id": sent["conversation_id"], "from_seq": 1, "to_seq": 1});
    assert_eq!(drill.admin(replay).await, json!({"events": 1}));
    let id = format!("{}:1", sent["conversation_id"].as_str().unwrap());
    assert!(server.events().await.iter().any(|event| event["id"] == *id));
    stream.purge_given_up();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("events-behind", RANG), ("events-given-up", "..!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn events_behind() {
    let mut drill = Drill::start_with(TestServer::publishing).await;
    let server = Arc::clone(&drill.server);
    let stream = server.local().mapping("EntryStream").unwrap();
    // An operator has disabled the mapping for more than ten minutes, twice.
    stream.behind(Duration::from_secs(601));
    for period in ["first", "second"] {
        stream.hold().await;
        drill.alice.send("dave", period, "hi").await;
        stream.release();
        let late = server.events().await.pop().unwrap();
        assert_eq!(late["conversation"]["members"], json!(["alice", "dave"]), "late, but it comes");
        drill.periods(1).await;
    }
    stream.behind(Duration::ZERO);
    drill.all_is_well(2).await;
    drill.assert_rang(&[("events-behind", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn group_throttles() {
    let mut drill = Drill::start().await;
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let group = ask(&mut drill.alice, create).await["result"]["conversation_id"].take();
    // The first try of each look-up of a member is one too many, the second is not.
    let mut seen = Vec::new();
    drill.break_calls(move |_, call| {
        let one_table = call.body()["TableName"] == "MembersTable" && seen.len() < MESSAGES;
        (one_table && !seen.contains(call)).then(|| {
            seen.push(call.clone());
            Fault::Throttled
        })
    });
    let mut sent = 0;
    while drill.sum("ReadThrottleEvents", "MembersTable").await < MESSAGES as u64 {
        sent += 1;
        // Each in another group, since the same look-up is turned away once.
        let create =
            json!({"action": "create", "client_msg_id": format!("c1-{sent}"), "title": "Trip", "members": ["bob"]});
        assert_eq!(ask(&mut drill.alice, create).await["type"], "reply", "slowness first");
    }
    drill.periods(1).await;
    drill.break_calls(|_, call| {
        let writes = call.body()["TransactItems"].as_array().and_then(|writes| writes.last()).cloned();
        let is_of_group = writes.is_some_and(|write| write["Update"]["TableName"] == "ConversationsTable");
        is_of_group.then_some(Fault::Cancelled(&["ThrottlingError"]))
    });
    for number in 0..MESSAGES {
        let answer = ask(&mut drill.alice, say(&group, &format!("m{number}"))).await;
        assert_eq!(answer["error"]["code"], "unavailable", "a transaction is not tried again");
    }
    assert_eq!(drill.sum("WriteThrottleEvents", "ConversationsTable").await, MESSAGES as u64);
    drill.periods(1).await;

    // The traffic ends.
    drill.repair_calls();
    assert_eq!(ask(&mut drill.alice, say(&group, "m0")).await["result"]["seq"], 2, "and what was refused goes");
    drill.all_is_well(2).await;
    drill.assert_rang(&[("group-throttles", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn fanout_behind() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    let stream = server.group_stream();
    let (group, mut member) = large_group(&mut drill).await;
    // An operator has disabled the mapping for more than ten seconds, twice.
    stream.behind(Duration::from_secs(11));
    stream.hold().await;
    ask(&mut drill.alice, say(&group, "m1")).await;
    // "Who opens the app sees everything."
    let list = server.phone("u2").await.inbox().await;
    assert_eq!((&list[0]["last_seq"], &list[0]["unread"]), (&json!(2), &json!(1)));
    stream.release();
    assert_eq!(told(&mut member).await, 2, "late, but it comes");
    drill.periods(1).await;
    // Then a table refuses what fanout asks for.
    break_fanout(&drill, Fault::Status(500));
    ask(&mut drill.alice, say(&group, "m2")).await;
    until_partial(&drill, "fanout").await;
    drill.assert_logged("cause", "InboxTable").await;
    drill.repair_calls();
    assert_eq!(told(&mut member).await, 3, "nothing has to be done for what was late");
    server.groups_settled().await;
    drill.periods(1).await;

    stream.behind(Duration::ZERO);
    drill.all_is_well(2).await;
    drill.assert_rang(&[("fanout-behind", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn members_left_behind() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    let (group, mut member) = large_group(&mut drill).await;
    // One user's partition has no room for more.
    drill.break_calls(|_, call| (call.is_about("InboxTable", "u7") && call.writes()).then_some(Fault::Full));
    ask(&mut drill.alice, say(&group, "m1")).await;
    assert_eq!(told(&mut member).await, 2, "nobody else notices");
    server.groups_settled().await;
    drill.assert_logged("error", "ItemCollectionSizeLimitExceeded").await;
    drill.periods(1).await;

    // Their rows are removed, and the members brought along.
    drill.repair_calls();
    let repaired = drill.admin(json!({"op": "repair", "conversation_id": group})).await;
    assert_eq!((&repaired["moved"], &repaired["left_behind"]), (&json!(1), &json!(0)));
    drill.all_is_well(2).await;
    drill.assert_rang(&[("members-left-behind", ".!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn hole() {
    let mut drill = Drill::start().await;
    let tables = drill.server.tables();
    let conversation = drill.bob.conversation("alice").await;
    let id = &conversation["conversation_id"];
    let key = HashMap::from([
        ("conversation_id".to_owned(), AttributeValue::S(id.as_str().unwrap().to_owned())),
        ("seq".to_owned(), AttributeValue::N("2".to_owned())),
    ]);
    let get = tables.get_item().table_name("MessagesTable").set_key(Some(key.clone()));
    let row = get.send().await.unwrap().item;
    tables.delete_item().table_name("MessagesTable").set_key(Some(key)).send().await.unwrap();
    let history = json!({"action": "history", "conversation_id": id});
    assert_eq!(ask(&mut drill.alice, history.clone()).await["error"]["code"], "unavailable");
    drill.assert_logged("cause", "the entry 2 of a log is missing").await;
    drill.periods(1).await;

    // "Copy it from a restored table."
    tables.put_item().table_name("MessagesTable").set_item(row).send().await.unwrap();
    assert_eq!(ask(&mut drill.alice, history).await["type"], "reply");
    drill.all_is_well(2).await;
    drill.assert_rang(&[("hole", ".!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn fanout_given_up() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    let stream = server.group_stream();
    let (group, mut member) = large_group(&mut drill).await;
    // The table replies to no call in time. The group fails as a whole, and no member is left behind.
    break_fanout(&drill, Fault::Delayed(Duration::from_mins(1)));
    stream.behind(Duration::from_secs(11));
    ask(&mut drill.alice, say(&group, "m1")).await;
    until_partial(&drill, "fanout").await;
    drill.periods(1).await;
    // The first may have begun in the period before, and its age is of when it began.
    until_partial(&drill, "fanout").await;
    until_partial(&drill, "fanout").await;
    // An hour has passed.
    stream.behind(Duration::from_hours(1) + Duration::from_secs(11));
    server.groups_settled().await;
    drill.periods(1).await;
    let given_up = stream.given_up();
    assert_eq!(given_up.len(), 1);
    assert!(!given_up[0].to_string().contains("gr_"), "where in the stream, and no more");
    stream.behind(Duration::ZERO);
    drill.repair_calls();
    let mut other = server.phone("u3").await;
    let waits = other.ok(json!({"action": "drain"})).await;
    assert_eq!(waits["messages"].as_array().unwrap().len(), 1, "nobody has told them of the second");

    // "Repair the groups in which something was written since then", and empty the queue.
    let since = &given_up[0]["DDBStreamBatchInfo"]["approximateArrivalOfFirstRecord"];
    let repaired = drill.admin(json!({"op": "repair", "since": since})).await;
    assert_eq!((&repaired["groups"], &repaired["moved"], &repaired["next"]), (&json!(1), &json!(41), &Value::Null));
    assert_eq!(told(&mut member).await, 2);
    assert_eq!(told(&mut other).await, 2);
    stream.purge_given_up();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("fanout-behind", RANG), ("fanout-given-up", "..!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn dead_letters() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    let dead = server.local().queue("BackendDeadLetters").unwrap();
    let mut dave = server.phone("dave").await;
    // A server that was deployed with a field too few.
    let send = |id: &str, body: &str| json!({"QueueUrl": "BackendQueue.fifo", "MessageGroupId": "dave", "MessageDeduplicationId": id, "MessageBody": body});
    sqs(&server, "SendMessage", send("m1", r#"{"to":"dave","kind":"text","body":"hi"}"#)).await;
    settled(queue(&server)).await;
    drill.periods(1).await;

    // "The reason names the cause": the operator fixes it, sends the messages again, and empties the queue.
    let letters = dead.messages();
    assert_eq!(letters[0].1["detail"]["StringValue"], "client_msg_id: is missing");
    // With another id for SQS, for which the old one is done.
    sqs(&server, "SendMessage", send("m1-mended", r#"{"to":"dave","client_msg_id":"m1","kind":"text","body":"hi"}"#))
        .await;
    assert_eq!(dave.event("messages.new").await["messages"][0]["body"], "hi");
    dead.purge();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("dead-letters", ".!..")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn backend_behind() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    let mut dave = server.phone("dave").await;
    // An operator has disabled the mapping, and six minutes have passed.
    queue(&server).pause(true);
    queue(&server).behind(Duration::from_mins(6));
    publish(&server, "dave", "m1", "hi").await;
    drill.periods(2).await;

    queue(&server).pause(false);
    assert_eq!(dave.event("messages.new").await["messages"][0]["body"], "hi", "late, but it comes");
    settled(queue(&server)).await;
    drill.all_is_well(2).await;
    drill.assert_rang(&[("backend-behind", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn media_behind() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    let stream = server.local().mapping("MediaStream").unwrap();
    let (first, second) = (picture(&mut drill, "p1").await, picture(&mut drill, "p2").await);
    // An operator has disabled the mapping for more than a minute.
    stream.behind(Duration::from_secs(61));
    stream.hold().await;
    delete(&mut drill, &first).await;
    // "Nobody gets a URL to it any more; who got one before can fetch it."
    let download = json!({"action": "download", "media_ids": [first.media_id]});
    assert_eq!(ask(&mut drill.bob, download).await["result"]["gone"], json!([first.media_id]));
    assert_eq!(fetched(&drill, &first).await, 200);
    stream.release();
    timeout(PATIENCE, stream.settled()).await.unwrap();
    assert_eq!(fetched(&drill, &first).await, 404);
    drill.periods(1).await;
    // And once more, while S3 is out of reach.
    drill.break_calls(|_, call| {
        ["DeleteObject", "HeadObject"].contains(&call.operation()).then_some(Fault::Status(500))
    });
    delete(&mut drill, &second).await;
    until_partial(&drill, "sweep").await;
    drill.assert_logged("cause", "DeleteObject failed").await;
    drill.repair_calls();
    timeout(PATIENCE, stream.settled()).await.unwrap();
    assert_eq!(fetched(&drill, &second).await, 404, "nothing has to be done for what was late");
    drill.periods(1).await;

    stream.behind(Duration::ZERO);
    drill.all_is_well(2).await;
    drill.assert_rang(&[("media-behind", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn media_given_up() {
    let mut drill = Drill::start().await;
    let server = Arc::clone(&drill.server);
    let (first, second) = (picture(&mut drill, "p1").await, picture(&mut drill, "p2").await);
    // S3 refuses to remove one of them, and no other.
    let refused = first.media_id.as_str().unwrap().to_owned();
    drill.break_calls(move |_, call| {
        let is_it = call.operation() == "DeleteObject" && call.body().to_string().contains(&refused);
        is_it.then_some(Fault::Status(500))
    });
    delete(&mut drill, &first).await;
    delete(&mut drill, &second).await;
    timeout(PATIENCE, server.local().mapping("MediaStream").unwrap().settled()).await.unwrap();
    assert_eq!(fetched(&drill, &second).await, 404, "nobody waits for it");
    let given_up = server.local().queue("MediaFailures").unwrap();
    assert_eq!(given_up.len(), 1);
    drill.assert_logged("cause", "DeleteObject failed").await;
    drill.periods(1).await;
    drill.repair_calls();

    // "Have what was given up removed."
    assert!(server.local().replay("MediaFunction", "MediaStream", "MediaFailures").await.unwrap());
    assert_eq!(server.local().objects().keys(), Vec::<String>::new());
    drill.all_is_well(3).await;
    drill.assert_rang(&[("media-given-up", ".!...")]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn media_errors() {
    let mut drill = Drill::start().await;
    let announce = json!({
        "action": "upload", "to": "bob", "kind": "image", "mime": "image/png", "bytes": 2,
        "sha256": "j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ=",
    });
    drill.break_calls(|function, call| {
        (function == "MediaFunction" && call.operation() == "PutItem").then_some(Fault::Killed)
    });
    for _ in 0..MESSAGES {
        let answer = ask(&mut drill.alice, announce.clone()).await;
        assert_eq!(answer["message"], "Internal server error");
    }
    drill.assert_logged("message", "Runtime exited").await;
    drill.repair_calls();
    assert_eq!(drill.chat().await, Vec::<Value>::new(), "texts go on");
    drill.end_period().await;
    // Then it is turned away.
    drill.server.local().reserve("MediaFunction", Some(0));
    for _ in 0..MESSAGES {
        ask(&mut drill.alice, announce.clone()).await;
    }
    drill.periods(1).await;

    drill.server.local().reserve("MediaFunction", None);
    picture(&mut drill, "p1").await;
    drill.all_is_well(2).await;
    drill.assert_rang(&[("media-errors", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn keys_errors() {
    let mut drill = Drill::start().await;
    let mut phone = drill.server.device("alice", "pixel").await;
    let list = json!({"action": "list_keys"});
    // The function dies.
    drill.break_calls(|function, call| {
        (function == "KeysFunction" && call.operation() == "Query").then_some(Fault::Killed)
    });
    for _ in 0..MESSAGES {
        let answer = ask(&mut phone, list.clone()).await;
        assert_eq!(answer["message"], "Internal server error");
    }
    drill.assert_logged("message", "Runtime exited").await;
    drill.repair_calls();
    assert_eq!(drill.chat().await, Vec::<Value>::new(), "texts go on");
    drill.end_period().await;
    // Then it is turned away.
    drill.server.local().reserve("KeysFunction", Some(0));
    for _ in 0..MESSAGES {
        ask(&mut phone, list.clone()).await;
    }
    drill.periods(1).await;

    drill.server.local().reserve("KeysFunction", None);
    assert_eq!(phone.ok(list).await["devices"], json!([]));
    drill.all_is_well(2).await;
    drill.assert_rang(&[("keys-errors", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn hook_failing() {
    let filter = Filter::start(0).await;
    let (port, url) = (filter.port(), filter.url.clone());
    let mut drill = Drill::start_with(|options| options.send_hook = Some(url)).await;
    filter.stop().await;
    // Messages pass unfiltered.
    drill.all_is_well(2).await;
    drill.assert_logged("error", "the function failed").await;

    let _filter = Filter::start(port).await;
    // A process that found the filter dead asks again after 10 s. A new process does not wait.
    for pid in drill.server.local().sandboxes("SendFunction") {
        Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    }
    drill.all_is_well(2).await;
    drill.assert_rang(&[("hook-failing", RANG)]);
}

#[tokio::test]
#[ignore = "wants the tools, which `just tools` installs; `just drills` runs it"]
async fn media_throttles() {
    let mut drill = Drill::start().await;
    for period in 1..=2 {
        // The first try of each call is one too many, the second is not.
        let mut seen = Vec::new();
        drill.break_calls(move |_, call| {
            (call.body()["TableName"] == "MediaTable" && !seen.contains(call)).then(|| {
                seen.push(call.clone());
                Fault::Throttled
            })
        });
        for number in 0..MESSAGES {
            picture(&mut drill, &format!("p{period}-{number}")).await;
        }
        assert!(drill.sum("WriteThrottleEvents", "MediaTable").await >= MESSAGES as u64, "slowness first");
        drill.periods(1).await;
    }

    // The traffic ends.
    drill.repair_calls();
    drill.all_is_well(2).await;
    drill.assert_rang(&[("media-throttles", RANG)]);
}

/// A picture that alice sent bob, and a URL of it.
struct Picture {
    media_id: Value,
    conversation_id: Value,
    seq: Value,
    url: String,
}

async fn picture(drill: &mut Drill, id: &str) -> Picture {
    let described = json!({"mime": "image/png", "bytes": 2, "sha256": "j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ="});
    let with = |more: Value| {
        let mut frame = described.clone();
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    let announce = with(json!({"action": "upload", "to": "bob", "kind": "image"}));
    let place = ask(&mut drill.alice, announce).await["result"].take();
    let media_id = place["media_id"].clone();
    let mut put = drill.server.http.put(place["url"].as_str().unwrap()).body("hi");
    for (name, value) in place["headers"].as_object().unwrap() {
        put = put.header(name, value.as_str().unwrap());
    }
    assert_eq!(put.send().await.unwrap().status(), 200);
    ask(&mut drill.alice, json!({"action": "uploaded", "media_id": media_id})).await;
    let media = with(json!({"media_id": media_id, "width": 4, "height": 3}));
    let send = json!({"action": "send", "to": "bob", "client_msg_id": id, "kind": "image", "body": "", "media": media});
    let stored = ask(&mut drill.alice, send).await["result"].take();
    let download = json!({"action": "download", "media_ids": [media_id]});
    let got = ask(&mut drill.bob, download).await["result"].take();
    let url = got["items"][0]["url"].as_str().unwrap().to_owned();
    Picture { media_id, conversation_id: stored["conversation_id"].clone(), seq: stored["seq"].clone(), url }
}

async fn delete(drill: &mut Drill, picture: &Picture) {
    let Picture { conversation_id, seq, .. } = picture;
    let id = format!("d{seq}");
    let delete = json!({"action": "delete", "conversation_id": conversation_id, "seq": seq, "client_msg_id": id});
    assert_eq!(ask(&mut drill.alice, delete).await["type"], "reply");
}

async fn fetched(drill: &Drill, picture: &Picture) -> u16 {
    drill.server.http.get(&picture.url).send().await.unwrap().status().as_u16()
}

fn say(group: &Value, id: &str) -> Value {
    json!({"action": "send", "conversation_id": group, "client_msg_id": id, "kind": "text", "body": "hi"})
}

/// Creates a group whose members the stream updates. Returns it with a member's phone, which has the first entry.
async fn large_group(drill: &mut Drill) -> (Value, Phone) {
    let mut member = drill.server.phone("u1").await;
    let members: Vec<String> = (0..40).map(|number| format!("u{number}")).collect();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Club", "members": members});
    let group = ask(&mut drill.alice, create).await["result"]["conversation_id"].take();
    assert_eq!(told(&mut member).await, 1);
    drill.server.groups_settled().await;
    (group, member)
}

/// Returns the next entry in an event to the phone.
async fn told(phone: &mut Phone) -> u64 {
    phone.event("messages.new").await["messages"][0]["seq"].as_u64().unwrap()
}

/// Members' rows can't be read by whoever brings them along.
fn break_fanout(drill: &Drill, fault: Fault) {
    drill.break_calls(move |function, call| {
        (function == "FanoutFunction" && call.operation() == "BatchGetItem").then_some(fault)
    });
}

/// Until one more batch has failed.
async fn until_partial(drill: &Drill, route: &str) {
    let partial = async || {
        let lines = drill.lines().await;
        lines.iter().filter(|line| line["route"] == route && line["outcome"] == "partial").count()
    };
    let before = partial().await;
    let failed = async {
        while partial().await == before {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, failed).await.expect("a batch fails");
}

async fn enable_fcm(drill: &Drill, enabled: bool) {
    let application = "arn:aws:sns:us-east-1:000000000000:app/GCM/local";
    let body = format!(
        "Action=SetPlatformApplicationAttributes&PlatformApplicationArn={application}\
         &Attributes.entry.1.key=Enabled&Attributes.entry.1.value={enabled}"
    );
    let post = drill.server.http.post(format!("{}/sns", drill.server.local().http_url())).body(body);
    assert_eq!(post.send().await.unwrap().status(), 200);
}

/// Until more pushes of this period have failed than the alarm minds.
async fn until_pushes_failed(drill: &Drill, period: &str) {
    let before = if period == "first" { 0 } else { failed_pushes(drill).await };
    while failed_pushes(drill).await < before + MESSAGES as u64 {
        sleep(Duration::from_millis(10)).await;
    }
}

async fn failed_pushes(drill: &Drill) -> u64 {
    let lines = drill.lines().await;
    lines.iter().filter(|line| line["route"] == "notify").filter_map(|line| line["failed"].as_u64()).sum()
}
