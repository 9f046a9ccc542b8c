package attack

// Result is what one attack on one service came to.
type Result struct {
	AttackID string `json:"attackId"`
	Service  string `json:"service"`
	Title    string `json:"title"`
	// DecidedBy, Expected and Got are of the first shape that was not blocked, or when all were of
	// the first. A line of several shapes names each in Shapes.
	DecidedBy string `json:"decidedBy"`
	Expected  Answer `json:"expected"`
	Got       Answer `json:"got"`
	// Failed is the first check that policy.checked names as failed in the run's evidence,
	// null where nothing was checked.
	Failed  *Check   `json:"failedCheck"`
	Permits int64    `json:"permits"` // issued by the attacks of all shapes
	Effects int64    `json:"effects"` // in the service's own ledger, of all shapes
	Twin    bool     `json:"twinPassed"`
	Blocked bool     `json:"blocked"`
	Problem string   `json:"problem"` // why it is not blocked, "" when it is
	Runs    []string `json:"runIds"`
	Shapes  []Shape  `json:"shapes"`
	Label   string   `json:"label"`
}

// Check is a hard check of G-09 by number and name.
type Check struct {
	Number int64  `json:"check"`
	Name   string `json:"name"`
}

// Shape is what one form of an attack came to.
type Shape struct {
	Name      string `json:"name"`
	DecidedBy string `json:"decidedBy"`
	Expected  Answer `json:"expected"`
	Got       Answer `json:"got"`
	Failed    *Check `json:"failedCheck"`
	Permits   int64  `json:"permits"`
	Effects   int64  `json:"effects"`
	Twin      bool   `json:"twinPassed"`
	Blocked   bool   `json:"blocked"`
	Problem   string `json:"problem"`
}

// Summary counts the lines of a suite.
type Summary struct {
	Total   int   `json:"total"`
	Blocked int   `json:"blocked"`
	Permits int64 `json:"permits"`
	Effects int64 `json:"effects"`
}

// Add counts a line.
func (s *Summary) Add(r *Result) {
	s.Total++
	s.Permits += r.Permits
	s.Effects += r.Effects
	if r.Blocked {
		s.Blocked++
	}
}

// Held reports whether every line was blocked, without a permit and without an effect.
func (s *Summary) Held() bool {
	return s.Total > 0 && s.Blocked == s.Total && s.Permits == 0 && s.Effects == 0
}

// add takes the outcome of a shape into the line.
func (r *Result) add(s Shape) {
	if len(r.Shapes) == 0 || r.Blocked && !s.Blocked {
		r.DecidedBy, r.Expected, r.Got, r.Failed, r.Blocked, r.Problem = s.DecidedBy, s.Expected, s.Got, s.Failed, s.Blocked, s.Problem
		if s.Problem != "" && s.Name != "" {
			r.Problem = s.Name + ": " + s.Problem
		}
	}
	r.Twin = s.Twin && (len(r.Shapes) == 0 || r.Twin)
	r.Permits, r.Effects = r.Permits+s.Permits, r.Effects+s.Effects
	r.Shapes = append(r.Shapes, s)
}
