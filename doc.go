// Package countersign is the root of the countersign module: a control plane
// that stands between AI agents and the consequential things they can do. An
// agent may ask; only the control plane commits. This package holds no code, only
// this map and the test that keeps the import order ([TestLayers] in
// layers_test.go).
//
// From the inside out:
//
//	internal/canon, internal/money   bytes and cents
//	evidence                         public: events, chains, exports, verification
//	dispatch                         public: dispatch permits and receipts, all a shop needs
//	internal/authority               grants, permits, budgets, digests
//	internal/pubkey                  lists of trusted public keys
//	internal/machine                 what every state machine over evidence has in common
//	internal/supervision/propose     what may be proposed and what is: catalog entries, reports
//	internal/supervision/stopcontext what each reason means for a run
//	internal/supervision/run         the machine of one run: state, events, hard checks, replay
//	internal/supervision/decide      what happens next: events, or a denial
//	internal/supervision/service     merchant: what a service can do, locally and hosted
//	internal/supervision/model       who proposes and who judges; today authored replay
//	internal/ledger                  the one write; engines sqlite and postgres
//	internal/supervision/records     what the ledger holds of a run, read and shown
//	internal/supervision/gateway     the action cycle: observe, propose, decide, permit, dispatch, verify
//	internal/contextturn             context turns: what an application was handed while it ran a model
//	internal/runbook                 the governed incident workflow, and its tasks for agents
//	internal/identity, internal/keys sessions, tokens and signing keys
//	internal/channel                 HTTP: strict edge, owner routes, restricted agent routes
//	internal/console                 the pages
//	internal/app                     configuration, clock and the only wiring
//	cmd/countersign                  the command line
//	store                            the hosted example storefront; knows only dispatch
//	api                              the published contract
//	vectors                          language-neutral test cases
//
// docs/architecture.md tells the same with the reasons.
package countersign
