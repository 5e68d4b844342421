//! Filter of the page for browsers.

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
        match files(&exchange.head.method, &exchange.info.path, &exchange.head.headers) {
            Some(answer) => Step::answer(answer.map(Into::into)),
            None => Step::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method, StatusCode};

    use super::super::arrival::WithRequestInfo;
    use super::super::testing::{Reply, exchange};
    use super::*;

    fn files(method: &Method, path: &str, _headers: &HeaderMap) -> Option<http::Response<Bytes>> {
        (method == Method::GET && path == "/ui/").then(http::Response::default)
    }

    #[tokio::test]
    async fn page_is_answered_only_if_enabled() {
        for (files, method, path, status) in [
            (Some(files as PageFiles), "GET", "/ui/", StatusCode::OK),
            (Some(files), "POST", "/ui/", StatusCode::IM_A_TEAPOT),
            (Some(files), "GET", "/api", StatusCode::IM_A_TEAPOT),
            (None, "GET", "/ui/", StatusCode::IM_A_TEAPOT),
        ] {
            let handler = Reply::UNREACHABLE.behind(WithPage { files }).behind(WithRequestInfo {
                cbor: false,
                own_apis: true,
            });
            let answer = handler.handle(&mut exchange(method, path)).await;
            assert_eq!(answer.status(), status, "{method} {path}");
        }
    }
}
