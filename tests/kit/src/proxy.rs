//! A proxy before DynamoDB and before @connections, through which a local server's functions make every call: to see each,
//! and to let some come to grief.

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
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::{Failure, TestServer, cloud};

/// A call that a function makes.
pub struct AwsCall {
    /// The function's logical id, if its sandbox is one of the server's.
    pub function: String,
    /// `TransactWriteItems`, or `PostToConnection`.
    pub operation: String,
    /// What DynamoDB is asked for; `null` for a post.
    pub body: Value,
}

/// What becomes of a call that is not simply carried out.
pub enum Mishap {
    /// It never arrives.
    Lost,
    /// It takes effect, and its answer does not come back.
    ReplyLost,
    /// The sandbox that makes it is killed before it arrives.
    KilledBefore,
    /// The sandbox that makes it is killed when it has taken effect.
    KilledAfter,
    Delayed(Duration),
    /// It takes no effect, and this is the answer.
    Answer(Failure),
}

/// Decides what becomes of a call.
pub trait Fate: Send + Sync + 'static {
    fn of(&self, call: &AwsCall) -> Option<Mishap>;
}

impl<F: Fn(&AwsCall) -> Option<Mishap> + Send + Sync + 'static> Fate for F {
    fn of(&self, call: &AwsCall) -> Option<Mishap> {
        self(call)
    }
}

/// Stops when dropped.
pub struct Proxy {
    environment: BTreeMap<String, String>,
    server: Arc<OnceLock<Weak<TestServer>>>,
    _serving: JoinSet<()>,
}

#[derive(Clone, Copy)]
enum Service {
    Database,
    Connections,
}

#[derive(Clone)]
struct Way {
    service: Service,
    fate: Arc<dyn Fate>,
    http: reqwest::Client,
    /// Weak, and set late, since the server's functions need us to be there first.
    server: Arc<OnceLock<Weak<TestServer>>>,
}

impl Proxy {
    pub async fn open(fate: Arc<dyn Fate>) -> Self {
        let (mut serving, mut environment) = (JoinSet::new(), BTreeMap::new());
        let (server, http) = (Arc::new(OnceLock::new()), reqwest::Client::new());
        for (service, variable, path) in [
            (Service::Database, "AWS_ENDPOINT_URL_DYNAMODB", ""),
            (Service::Connections, "CONNECTIONS_ENDPOINT", "/v1"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            environment.insert(variable.to_owned(), format!("http://{}{path}", listener.local_addr().unwrap()));
            let way = Way { service, fate: Arc::clone(&fate), http: http.clone(), server: Arc::clone(&server) };
            serving.spawn(serve(listener, way));
        }
        Self { environment, server, _serving: serving }
    }

    /// A local server whose functions come this way.
    pub async fn server(&self) -> Arc<TestServer> {
        let server = Arc::new(TestServer::with(|options| options.environment = self.environment.clone()).await);
        self.server.set(Arc::downgrade(&server)).expect("there is one server");
        server
    }
}

async fn serve(listener: TcpListener, way: Way) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let way = way.clone();
        let call = service_fn(move |request| {
            let way = way.clone();
            async move { way.call(request).await }
        });
        connections.spawn(async move {
            // A call that is lost breaks its connection: that is how the caller learns of it.
            http1::Builder::new().serve_connection(TokioIo::new(stream), call).await.unwrap_or_default();
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Way {
    async fn call(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let server = self.server.get().and_then(Weak::upgrade).ok_or_else(broken)?;
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, body.collect().await.map_err(io::Error::other)?.to_bytes());
        let access_key = access_key(&request).unwrap_or_default();
        let kill = || {
            if let Some(pid) = server.local().caller(&access_key) {
                // Two of its calls may have been chosen at once, and it dies only once: what `kill` says of that is no news.
                Command::new("kill").args(["-9", &pid.to_string()]).output().unwrap();
            }
        };
        let mut call = self.describe(&request, &access_key);
        let mishap = self.fate.of(&call);
        // At every transaction the engine looks through the tokens of ten minutes: it gets those that may come again.
        if mishap.is_none() && is_first_attempt(&request) {
            call.body.as_object_mut().and_then(|body| body.remove("ClientRequestToken"));
        }
        match mishap {
            None => self.carry_out(&server, &call, request).await,
            Some(Mishap::Lost) => Err(broken()),
            Some(Mishap::ReplyLost) => {
                self.carry_out(&server, &call, request).await?;
                Err(broken())
            }
            Some(Mishap::KilledBefore) => {
                kill();
                Err(broken())
            }
            Some(Mishap::KilledAfter) => {
                self.carry_out(&server, &call, request).await?;
                kill();
                Err(broken())
            }
            Some(Mishap::Delayed(delay)) => {
                tokio::time::sleep(delay).await;
                self.carry_out(&server, &call, request).await
            }
            Some(Mishap::Answer(failure)) => {
                let Failure::Status(status, body) = failure else { unreachable!("an answer has a status") };
                Ok(Response::builder().status(status).body(Full::from(body.to_string())).unwrap())
            }
        }
    }

    fn describe(&self, request: &Request<Bytes>, access_key: &str) -> AwsCall {
        let function = access_key.split('.').next().unwrap_or_default().to_owned();
        match self.service {
            Service::Connections => AwsCall { function, operation: "PostToConnection".to_owned(), body: Value::Null },
            Service::Database => {
                let target = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
                let operation = target.and_then(|target| target.split('.').next_back()).unwrap_or_default();
                let body = serde_json::from_slice(request.body()).unwrap_or_default();
                AwsCall { function, operation: operation.to_owned(), body }
            }
        }
    }

    async fn carry_out(
        &self,
        server: &TestServer,
        call: &AwsCall,
        request: Request<Bytes>,
    ) -> io::Result<Response<Full<Bytes>>> {
        match self.service {
            Service::Database => {
                let engine = server.local().database().engine();
                let (status, answer) = cloud::answer(engine, &call.operation, &call.body.to_string());
                Ok(Response::builder().status(status).body(Full::from(answer)).unwrap())
            }
            Service::Connections => self.pass_on(&server.local().http_url(), request).await,
        }
    }

    async fn pass_on(&self, host: &str, request: Request<Bytes>) -> io::Result<Response<Full<Bytes>>> {
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        headers.remove(HOST);
        let call = self.http.request(parts.method, format!("{host}{}", parts.uri)).headers(headers).body(body);
        let answer = call.send().await.map_err(io::Error::other)?;
        let mut response = Response::builder().status(answer.status());
        response.headers_mut().unwrap().clone_from(answer.headers());
        let body = answer.bytes().await.map_err(io::Error::other)?;
        Ok(response.body(Full::from(body)).unwrap())
    }
}

/// Who calls, by the signature: `AWS4-HMAC-SHA256 Credential=KEY/20260101/…`.
fn access_key(request: &Request<Bytes>) -> Option<String> {
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
