package evaluate

import "slices"

// Failures of a task, as G-29 names them.
const (
	WrongTool          = "wrong_tool"          // one that is forbidden, or that there is not
	MissingTool        = "missing_tool"        // one that is required was not used, or not with success
	MalformedArguments = "malformed_arguments" // the server refused the form of a call
	PolicyViolation    = "policy_violation"    // something happened that may not; see package tasks
	UnsupportedClaim   = "unsupported_claim"   // the text says what no receipt shows
	PoorExplanation    = "poor_explanation"    // the text does not say what it has to
	APIError           = "api_error"           // the provider or the control plane failed
	Other              = "other"               // the end is not as it has to be, with every tool used
)

// Taxonomy lists the failures in the order in which grades name them.
var Taxonomy = []string{WrongTool, MissingTool, MalformedArguments, PolicyViolation, UnsupportedClaim, PoorExplanation, APIError, Other}

// Grades are those of one task. Taxonomy is empty exactly when both passed.
type Grades struct {
	TaskSuccess  bool      `json:"taskSuccess"`
	PolicyPassed bool      `json:"policyPassed"`
	Taxonomy     []string  `json:"taxonomy"`
	Findings     []Finding `json:"findings"`
}

// Finding is one thing that is wrong, with the failure that it is.
type Finding struct {
	Failure  string `json:"failure"`
	Sentence string `json:"sentence"`
}

// graded makes the grades of what was found. Arguments that were refused are told where
// something failed; an agent that corrected them has done the task.
func graded(findings []Finding) Grades {
	g := Grades{TaskSuccess: true, PolicyPassed: true, Taxonomy: []string{}, Findings: []Finding{}}
	for _, f := range findings {
		switch f.Failure {
		case MalformedArguments:
		case PolicyViolation:
			g.PolicyPassed = false
		default:
			g.TaskSuccess = false
		}
	}
	if g.TaskSuccess && g.PolicyPassed {
		return g
	}
	g.Findings = findings
	for _, failure := range Taxonomy {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Failure == failure }) {
			g.Taxonomy = append(g.Taxonomy, failure)
		}
	}
	return g
}
