package attack

// What an attack has come to.
const (
	OutcomeBlocked = "blocked"
	// OutcomeOpen: it was carried out and not blocked as it must be. It is a breach when it
	// got a permit or had an effect.
	OutcomeOpen = "open"
	// OutcomeNotCarriedOut: the installation did not take part as the attack needs it, such
	// as a ledger that was not there, a freeze, or a twin that was not allowed. It shows
	// nothing about the attack, neither that it is blocked nor that it is not.
	OutcomeNotCarriedOut = "not_carried_out"
)

// Result is what one attack on one service came to.
type Result struct {
	AttackID, Service, Target, Title string
	// Finding holds what the shape tells that is worst: one that is open, else one that was
	// not carried out, else the first. Permits, Effects and Twin are of all shapes.
	Finding
	Runs   []string
	Shapes []Shape
}

// Shape is what one form of an attack came to.
type Shape struct {
	Name string // "" where there is only one
	Finding
}

// Finding is what was found.
type Finding struct {
	DecidedBy string
	Expected  Answer
	Got       *Answer // nil: there was no answer
	// Failed is the first check that policy.checked names as failed in the run's evidence,
	// nil where nothing was checked.
	Failed  *Check
	Permits int64 // issued to the attack
	Effects int64 // in the service's own ledger
	Twin    bool  // it was allowed and took effect
	Outcome string
	Problem string // why it is not blocked, "" when it is
}

// Blocked reports whether the twin passed and the attack was answered as it must be,
// without a permit and without an effect.
func (f *Finding) Blocked() bool { return f.Outcome == OutcomeBlocked }

// Check is a hard check of G-09 by number and name.
type Check struct {
	Number int64
	Name   string
}

// Summary counts the lines of a suite.
type Summary struct {
	Total   int   `json:"total"`
	Blocked int   `json:"blocked"`
	Permits int64 `json:"permits"`
	Effects int64 `json:"effects"`

	Open          int `json:"-"`
	NotCarriedOut int `json:"-"`
}

// Add counts a line.
func (s *Summary) Add(r *Result) {
	s.Total++
	s.Permits += r.Permits
	s.Effects += r.Effects
	switch r.Outcome {
	case OutcomeBlocked:
		s.Blocked++
	case OutcomeNotCarriedOut:
		s.NotCarriedOut++
	default:
		s.Open++
	}
}

// Held reports whether every line was blocked, without a permit and without an effect.
func (s *Summary) Held() bool {
	return s.Total > 0 && s.Blocked == s.Total && s.Permits == 0 && s.Effects == 0
}

// worse orders outcomes.
var worse = map[string]int{OutcomeBlocked: 1, OutcomeNotCarriedOut: 2, OutcomeOpen: 3}

// add takes the outcome of a shape into the line.
func (r *Result) add(s Shape) {
	permits, effects, twin := r.Permits+s.Permits, r.Effects+s.Effects, s.Twin && (len(r.Shapes) == 0 || r.Twin)
	if worse[s.Outcome] > worse[r.Outcome] {
		r.Finding = s.Finding
		if s.Problem != "" && s.Name != "" {
			r.Problem = s.Name + ": " + s.Problem
		}
	}
	r.Permits, r.Effects, r.Twin = permits, effects, twin
	r.Shapes = append(r.Shapes, s)
}
