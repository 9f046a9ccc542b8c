package tools

import "strings"

// stopwords say nothing of what a text is about. Contractions fall apart at their
// apostrophe, hence the single letters and the halves.
var stopwords = set(`
a about above after again against ain all also am an and any are aren as at
be because been before being below between both but by
can cannot could couldn
d did didn do does doesn doing don down during
each either else ever few for from further
had hadn has hasn have haven having he her here hers herself him himself his how however
i if in into is isn it its itself just
ll m may me might more most must my myself
need needn neither no nor not now
of off on once only onto or other our ours ourselves out over own
per please re
s same shall she should shouldn since so some such
t than that the their theirs them themselves then there these they this those though through to too
under until up upon us ve very via
was wasn we were weren what when whenever where whether which while who whom whose why will with within without would wouldn
yes yet you your yours yourself yourselves
`)

func set(words string) map[string]bool {
	s := map[string]bool{}
	for _, word := range strings.Fields(words) {
		s[word] = true
	}
	return s
}
