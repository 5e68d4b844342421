//! Filter of the page for browsers.

use http::HeaderMap;
use http::header::ACCEPT;

use super::{Exchange, Filter, Step};
use crate::operations::service::PageFiles;

/// Filter that answers requests for the files of the page. It precedes authentication: the files are the same for everyone.
pub(super) struct WithPage {
    pub(super) files: Option<PageFiles>,
}

impl Filter for WithPage {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        let Some(files) = self.files else {
            return Step::Pass;
        };
        let (path, headers) = (&exchange.info.path, &exchange.head.headers);
        // kube-apiserver has no such paths: a client that is not a browser gets its answers.
        if matches!(&path[..], "/ui" | "/ui/") && !accepts_html(headers) {
            return Step::Pass;
        }
        match files(&exchange.head.method, path, headers) {
            Some(answer) => Step::answer(answer.map(Into::into)),
            None => Step::Pass,
        }
    }
}

/// Returns true if the client asks for HTML by name, as browsers do.
fn accepts_html(headers: &HeaderMap) -> bool {
    let names_html = |value: &http::HeaderValue| value.to_str().is_ok_and(|types| types.contains("text/html"));
    headers.get_all(ACCEPT).iter().any(names_html)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method, StatusCode};

    use super::super::arrival::WithRequestInfo;
    use super::super::testing::{Reply, with_header};
    use super::*;

    fn files(method: &Method, path: &str, _headers: &HeaderMap) -> Option<http::Response<Bytes>> {
        (method == Method::GET && path == "/ui/").then(http::Response::default)
    }

    #[tokio::test]
    async fn page_is_answered_only_if_enabled() {
        const HTML: &str = "text/html,application/xhtml+xml";
        for (files, method, path, accept, status) in [
            (Some(files as PageFiles), "GET", "/ui/", HTML, StatusCode::OK),
            (
                Some(files),
                "GET",
                "/ui/",
                "application/json, */*",
                StatusCode::IM_A_TEAPOT,
            ),
            (Some(files), "POST", "/ui/", HTML, StatusCode::IM_A_TEAPOT),
            (Some(files), "GET", "/api", HTML, StatusCode::IM_A_TEAPOT),
            (None, "GET", "/ui/", HTML, StatusCode::IM_A_TEAPOT),
        ] {
            let handler = Reply::UNREACHABLE.behind(WithPage { files }).behind(WithRequestInfo {
                cbor: false,
                own_apis: true,
            });
            let mut exchange = with_header(method, path, "accept", accept);
            let answer = handler.handle(&mut exchange).await;
            assert_eq!(answer.status(), status, "{method} {path} {accept}");
        }
    }
}
