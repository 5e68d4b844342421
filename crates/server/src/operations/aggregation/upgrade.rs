//! Answers of aggregated servers to requests that switch from HTTP to another protocol, such as WebSockets and SPDY: from
//! then on bytes are passed in both directions.

use http::StatusCode;
use http::header;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::forward::{Failure, failed};
use crate::http::response::Response;
use crate::runtime::shutdown::Shutdown;
use crate::wire::body::{Broken, ResponseBody};
use crate::wire::upgrade::{self, SwitchingClient};

/// Returns the answer of the other server to a request of `client` to switch protocols.
pub(super) fn answer(
    client: SwitchingClient,
    answer: http::Response<Incoming>,
    shutdown: &Shutdown,
) -> Result<Response, Failure> {
    let status = answer.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let mut answer = answer;
        let other = hyper::upgrade::on(&mut answer);
        let headers = std::mem::take(answer.headers_mut());
        return Ok(upgrade::switching(headers, client.join(other, shutdown.clone())));
    }
    if status.as_u16() < 400 {
        let why = format!("invalid upgrade response: status code {}", status.as_u16());
        return Err(failed(StatusCode::SERVICE_UNAVAILABLE, &why));
    }
    let (head, body) = answer.into_parts();
    let mut response = Response::new(ResponseBody::passed(body.map_err(|_| Broken)));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    Ok(response)
}
