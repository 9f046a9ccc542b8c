// Package runbookhttp serves the one API of the governed incident workflow. The page's
// controls, native tools, the labelled simulator and programs all ask here.
//
//	runbookhttp.Register(api, plane) // nil: there is nothing at these paths, 404
//
// It translates and decides nothing: who may have what is decided by package control
// . There is one operation that approves, and it is the page's: it takes the
// one-time nonce of the page's form, which is in no answer of this API (L-9, R-067).
//
// # The order of refusals
//
// Of a POST that is wrong in several ways the first of these is answered:
//
//  1. origin_rejected: an Origin that is missing or not exactly the configured one, or a
//     Sec-Fetch-Site of another site;
//  2. content_type_rejected, BODY_TOO_LARGE, invalid_json;
//  3. invalid_request, which names the member, or that the session's cookie is there more
//     than once;
//  4. RATE_LIMITED and control_plane_unavailable, when a session would have to begin;
//  5. what was decided, with the receipt that it left and the snapshot after it.
//
// Steps 1 to 4 store nothing.
//
// # The session
//
// A cookie of 256 random bits names it, HttpOnly and SameSite=Strict, and Secure where the
// origin is https. It is set with the first request that leaves a receipt,
// refused ones too. One that is unknown or expired is none: a GET creates nothing (L-14).
// One that is there more than once is refused, by GET and POST alike: which is the browser's
// cannot be told, and a session would begin with every request. A session authenticates
// nobody.
//
// # The export
//
// It is sent while it is read, so that it takes no memory of its size. At most [MaxExports]
// are sent at once, others are control_plane_unavailable with Retry-After, and who does not
// read one within [ExportPatience] is cut off.
package runbookhttp
