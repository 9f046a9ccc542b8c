// Package propose holds what a consumer may propose and what it does propose, as
// values.
//
// An [Entry] is one concrete control of the catalog that comes with a trusted
// observation; it says what the action would do, to whom and for how much. A
// [Report] selects one such action and says why. [ParseReport] reads a report and
// [ParseOperation] the action of an operation, strictly (check 1 of G-09);
// [Reported] is what evidence keeps of a report: structure in full, prose as
// commitments. A managed executor answers with an [Outcome], of which a report is one
// branch.
//
// Everything here is pure and safe for concurrent use.
package propose
