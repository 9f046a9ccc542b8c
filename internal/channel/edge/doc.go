// Package edge is where HTTP meets countersign: it lets in only well-formed
// requests from where they may come, and gives every refusal one form. It knows
// no run, permit or service; packages owner and agent bring the routes.
//
// # Use
//
//	api, err := edge.New(edge.Config{Origin: origin, Title: .., Version: .., Log: log, Ready: ledger.Ping})
//	api.Guard(edge.OwnerPrefix, edge.OwnerGuard(api.Origin(), owners.Verify))
//	api.Guard(edge.ProjectsPrefix, edge.ProjectsGuard(api.Origin(), owners.Verify))
//	api.Guard("/api/v1/", edge.BearerGuard(tokens.Lookup))
//	edge.RegisterSessions(api, owners)
//	edge.Register(api, edge.Operation{..}, handler)     // JSON
//	edge.RegisterStream(api, edge.Operation{..}, open)  // Server-Sent Events
//	api.Handle("GET /run/{id}", page)                   // anything else
//	err = (&edge.Server{API: api}).Serve(ctx, listener)
//
// A handler returns an error and is done: a *authority.Denial or the error of
// [Refuse] becomes the answer of its reason, an error of identity becomes 401,
// 429 or 503, and everything else is logged and answered 500 INTERNAL without a
// word about the cause.
//
// # What a request goes through
//
//  1. Host is the configured origin's host, else 403 ORIGIN_REJECTED: a name that
//     was rebound to this machine gets nowhere.
//  2. The guard with the longest matching prefix. It sees every path under its
//     prefix, unknown ones and wrong methods included, so that no route can be
//     left open by mistake. [OwnerGuard] keeps the order of G-20.
//  3. The route: 404 NOT_FOUND, 405 METHOD_NOT_ALLOWED. OPTIONS names the methods;
//     no answer ever permits another origin.
//  4. The body: application/json in UTF-8 (415), at most [MaxBody] bytes or what the
//     operation says (413), one value of the grammar of package canon (400).
//  5. Query, header and path parameters and the body's schema (400). Query
//     parameters that are unknown or have no value, repeated parameters and unknown
//     members are errors.
//  6. The handler, with 404 before 409.
//
// # Answers
//
// A refusal is application/problem+json (RFC 9457): type, title, status, detail,
// reasonCode, and errors with the places of what was wrong. It never repeats a
// submitted value; names of members and parameters are repeated, cut to a bound.
// [Reasons] is the one table of codes. It is append-only. The type of a problem
// is the path [ReasonsPath] with the code as fragment.
//
// huma keeps its error constructor and its casing rule in package variables; the
// first [New] sets them for the process.
package edge
