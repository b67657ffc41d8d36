//! What every function needs of Lambda and API Gateway: the event, the answer, the environment, the clock, the logs.

mod call;
mod clock;
mod env;
mod log;
mod metrics;

pub use aws_lambda_events::apigw::ApiGatewayWebsocketProxyRequest as WebSocketEvent;
pub use call::{Call, Caller, Failure, NotFromApiGateway, Response, caller, respond};
pub use clock::Clock;
pub use env::{BadVariable, env, sdk_config};
pub use lambda_runtime::{Context, Diagnostic, Error, LambdaEvent, run, service_fn};
pub use log::{start_log, subscriber};

/// An event on a WebSocket route.
pub type Event = LambdaEvent<WebSocketEvent>;
