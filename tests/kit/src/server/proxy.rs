//! A proxy before `DynamoDB`, SNS, SQS, S3 and @connections. A local server's functions make every call through it, so
//! that tests see each call, and let some fail.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use local::Options;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::TestServer;
use crate::{AwsCall, Fault, cloud};

/// Chooses a call's fault, if any. The first argument is the caller: the logical id of a function.
type Faults = dyn Fn(&str, &AwsCall) -> Option<Fault> + Send + Sync;

/// Gets each call's outcome: the caller, the status, and the body of `DynamoDB`'s reply.
type Watch = dyn Fn(&str, &AwsCall, u16, &str) + Send + Sync;

/// Stops when dropped.
pub struct Proxy {
    environment: BTreeMap<String, String>,
    server: Arc<OnceLock<Weak<TestServer>>>,
    _serving: JoinSet<()>,
}

#[derive(Clone)]
struct Relay {
    faults: Arc<Faults>,
    watch: Option<Arc<Watch>>,
    /// Latency added to each call of `DynamoDB`.
    latency: Duration,
    http: reqwest::Client,
    /// Weak, and set late, since the server's functions need us to be there first.
    server: Arc<OnceLock<Weak<TestServer>>>,
}

impl Proxy {
    pub async fn open(faults: impl Fn(&str, &AwsCall) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self::relaying(Arc::new(faults), None, Duration::ZERO).await
    }

    /// One through which all calls pass, and that shows each with its answer. `DynamoDB`'s say what they cost.
    pub async fn watching(watch: impl Fn(&str, &AwsCall, u16, &str) + Send + Sync + 'static) -> Self {
        Self::distant(Duration::ZERO, watch).await
    }

    /// Creates a proxy with a distant `DynamoDB`.
    pub async fn distant(latency: Duration, watch: impl Fn(&str, &AwsCall, u16, &str) + Send + Sync + 'static) -> Self {
        Self::relaying(Arc::new(|_, _| None), Some(Arc::new(watch)), latency).await
    }

    async fn relaying(faults: Arc<Faults>, watch: Option<Arc<Watch>>, latency: Duration) -> Self {
        let (mut serving, server) = (JoinSet::new(), Arc::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let environment = BTreeMap::from([
            ("CONNECTIONS_ENDPOINT".to_owned(), format!("{url}/v1")),
            ("AWS_ENDPOINT_URL_SNS".to_owned(), format!("{url}/sns")),
            ("AWS_ENDPOINT_URL_SQS".to_owned(), format!("{url}/sqs")),
            ("AWS_ENDPOINT_URL_S3".to_owned(), url.clone()),
            ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), url),
        ]);
        let relay = Relay { faults, watch, latency, http: reqwest::Client::new(), server: Arc::clone(&server) };
        serving.spawn(serve(listener, relay));
        Self { environment, server, _serving: serving }
    }

    /// A local server whose functions come this way.
    pub async fn server(&self) -> Arc<TestServer> {
        self.server_with(|_| {}).await
    }

    /// Starts a server with changed options.
    pub async fn server_with(&self, change: impl FnOnce(&mut Options)) -> Arc<TestServer> {
        let server = TestServer::with(|options| {
            options.environment = self.environment.clone();
            change(options);
        });
        let server = Arc::new(server.await);
        self.server.set(Arc::downgrade(&server)).expect("there is one server");
        server
    }
}

async fn serve(listener: TcpListener, relay: Relay) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let relay = relay.clone();
        let call = service_fn(move |request| {
            let relay = relay.clone();
            async move { relay.call(request).await }
        });
        connections.spawn(async move {
            // A call that is lost breaks its connection: that is how the caller learns of it.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), call).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Relay {
    async fn call(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let server = self.server.get().and_then(Weak::upgrade).ok_or_else(broken)?;
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, body.collect().await.map_err(io::Error::other)?.to_bytes());
        let access_key = access_key(&request).unwrap_or_default();
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let url = request.uri().to_string();
        let call = AwsCall::parse(request.method().as_str(), header, &url, request.body());
        let function = access_key.split('.').next().unwrap_or_default();
        let mut fault = (self.faults)(function, &call);
        let comes_once = fault.is_none() && is_first_attempt(&request);
        let kill = || {
            if let Some(pid) = server.local().caller(&access_key) {
                // Two calls may have chosen the process concurrently. Then the second `kill` fails, which is fine.
                Command::new("kill").args(["-9", &pid.to_string()]).output().unwrap();
            }
        };
        match fault {
            Some(Fault::Killed) => kill(),
            Some(Fault::Delayed(by)) => {
                tokio::time::sleep(by).await;
                fault = None;
            }
            _ => {}
        }
        let perform = |rest: &AwsCall| {
            cloud::answer(server.local().database().engine(), rest.operation(), &rest.body().to_string())
        };
        if let Some(partial) = fault.and_then(|fault| fault.partial_answer(&call, perform)) {
            return Ok(response(partial));
        }
        let mut answer = None;
        if fault.is_none_or(Fault::takes_effect) {
            answer = Some(self.perform(&server, function, call.clone(), request, comes_once).await?);
        }
        if fault == Some(Fault::KilledAfter) {
            kill();
        }
        match fault {
            None => answer,
            Some(fault) => fault.refusal(&call).map(response),
        }
        .ok_or_else(broken)
    }

    async fn perform(
        &self,
        server: &TestServer,
        function: &str,
        mut call: AwsCall,
        request: Request<Bytes>,
        comes_once: bool,
    ) -> io::Result<Response<Full<Bytes>>> {
        let show = |call: &AwsCall, status, body: &str| {
            if let Some(watch) = &self.watch {
                watch(function, call, status, body);
            }
        };
        let AwsCall::Database { operation, body } = &mut call else {
            let host = match &call {
                AwsCall::Object { .. } => server.local().objects().endpoint(),
                _ => server.local().http_url(),
            };
            let response = self.pass_on(&host, request).await?;
            show(&call, response.status().as_u16(), "");
            return Ok(response);
        };
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        if self.watch.is_some() {
            body["ReturnConsumedCapacity"] = json!("INDEXES");
        }
        // At every transaction the engine looks through the tokens of ten minutes: it gets those that may come again.
        if comes_once {
            body.as_object_mut().and_then(|body| body.remove("ClientRequestToken"));
        }
        let (status, answer) = cloud::answer(server.local().database().engine(), operation, &body.to_string());
        show(&call, status, &answer);
        Ok(response((status, answer)))
    }

    async fn pass_on(&self, host: &str, request: Request<Bytes>) -> io::Result<Response<Full<Bytes>>> {
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        // S3 looks at the signature, which has the host in it: this proxy.
        if !is_to_s3(&parts.uri) {
            headers.remove(HOST);
        }
        let call = self.http.request(parts.method, format!("{host}{}", parts.uri)).headers(headers).body(body);
        let answer = call.send().await.map_err(io::Error::other)?;
        let mut response = Response::builder().status(answer.status());
        response.headers_mut().unwrap().clone_from(answer.headers());
        let body = answer.bytes().await.map_err(io::Error::other)?;
        Ok(response.body(Full::from(body)).unwrap())
    }
}

fn response((status, body): (u16, String)) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::from(body)).unwrap()
}

fn is_to_s3(uri: &hyper::Uri) -> bool {
    uri.path().contains("/media/")
}

/// Returns the caller by the signature, `AWS4-HMAC-SHA256 Credential=KEY/20260101/…`, or the signer of the URL.
fn access_key(request: &Request<Bytes>) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut query = form_urlencoded::parse(query.as_bytes());
    if let Some((_, credential)) = query.find(|(name, _)| name == "X-Amz-Credential") {
        return Some(credential.split_once('/')?.0.to_owned());
    }
    let authorization = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (_, credential) = authorization.split_once("Credential=")?;
    Some(credential.split_once('/')?.0.to_owned())
}

/// Retries say `attempt=2; max=3`.
fn is_first_attempt(request: &Request<Bytes>) -> bool {
    request.headers().get("amz-sdk-request").is_some_and(|attempt| attempt.as_bytes().starts_with(b"attempt=1;"))
}

fn broken() -> io::Error {
    io::Error::other("broken on purpose")
}
