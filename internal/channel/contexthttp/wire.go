package contexthttp

import (
	"github.com/danielgtaylor/huma/v2"

	"countersign/evidence"
	"countersign/internal/channel/wire"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
)

// Bodies. Their schemas are the form that they are read by.

type startRequest struct {
	ClientRef string `json:"clientRef,omitempty" maxLength:"512" doc:"An opaque label of the client's own. It is redacted, cut to 128 characters, and kept beside the evidence." example:"job-7"`
}

type compassRequest struct {
	Task string `json:"task" minLength:"1" maxLength:"4000" doc:"What context is wanted for, in the words of whoever asks." example:"How do I refund an order?"`
}

type resolveRequest struct {
	Ref string `json:"ref" minLength:"1" maxLength:"200" doc:"The item's reference." example:"refunds"`
}

type findRequest struct {
	Query string `json:"query" minLength:"1" maxLength:"500" doc:"Words to look for." example:"refund order"`
	Limit int    `json:"limit,omitempty" minimum:"1" maximum:"20" doc:"At most so many items; 10 unless given." example:"5"`
}

type whyRequest struct {
	Ref           string `json:"ref,omitempty" minLength:"1" maxLength:"200" doc:"An item's reference."`
	InteractionID string `json:"interactionId,omitempty" pattern:"^int_[0-9a-f]{32}$" doc:"the id of an interaction of this client"`
}

type gapRequest struct {
	Task   string `json:"task,omitempty" minLength:"1" maxLength:"4000" doc:"What context is missing for."`
	Ref    string `json:"ref,omitempty" minLength:"1" maxLength:"200" doc:"A reference that leads nowhere, or to too little."`
	Detail string `json:"detail,omitempty" minLength:"1" maxLength:"2000" doc:"What is missing."`
}

type testRequest struct {
	CaseID     string   `json:"caseId,omitempty" minLength:"1" maxLength:"200" doc:"A case of the Build."`
	Task       string   `json:"task,omitempty" minLength:"1" maxLength:"4000" doc:"A task of one's own."`
	ExpectRefs []string `json:"expectRefs,omitempty" minItems:"1" maxItems:"20" doc:"What has to be found for it."`
}

type doctorRequest struct{}

type observationRequest struct {
	Event     string `json:"event" enum:"pre_tool_use" doc:"pre_tool_use" example:"pre_tool_use"`
	Tool      string `json:"tool" pattern:"^mcp__seif__[a-z0-9_]{1,64}$" maxLength:"128" doc:"the name of an mcp__seif__ tool, which looks like no secret" example:"mcp__seif__context_compass"`
	ToolUseID string `json:"toolUseId" minLength:"1" maxLength:"128" pattern:"^[A-Za-z0-9_.:-]+$" doc:"an opaque id out of A-Z a-z 0-9 _ . : - which looks like no secret" example:"toolu_01"`
}

type completeRequest struct {
	Status string `json:"status" enum:"completed,cancelled,failed" doc:"completed, cancelled or failed" example:"completed"`
	Note   string `json:"note,omitempty" maxLength:"2000" doc:"A technical outcome. It is redacted, cut to 500 characters, and kept beside the evidence. Send no output of a model." example:"The provider answered."`
}

type bridgeRequest struct {
	Kind   string `json:"kind" enum:"file.read,file.write,process.start,process.exit,http.request,http.response" doc:"file.read, file.write, process.start, process.exit, http.request or http.response" example:"file.read"`
	Digest string `json:"digest" pattern:"^[0-9a-f]{64}$" doc:"a SHA-256 in lower-case hex digits" example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
}

// The bodies that hold exactly one of several things say so in their schemas.

func (whyRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.OneOf, s.Description = oneOf([]string{"ref"}, []string{"interactionId"}), "either ref or interactionId"
	return s
}

func (gapRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.OneOf, s.Description = oneOf([]string{"task"}, []string{"ref"}), "either task or ref"
	return s
}

func (testRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.OneOf, s.Description = oneOf([]string{"caseId"}, []string{"task", "expectRefs"}), "either caseId, or task with expectRefs"
	one, most := 1, 200
	s.Properties["expectRefs"].Items.MinLength, s.Properties["expectRefs"].Items.MaxLength = &one, &most
	return s
}

// oneOf is a schema for each alternative: it is whole, and nothing of the others there.
func oneOf(groups ...[]string) (list []*huma.Schema) {
	for i, group := range groups {
		none := &huma.Schema{}
		for j, other := range groups {
			for _, name := range other {
				if i != j {
					none.AnyOf = append(none.AnyOf, &huma.Schema{Required: []string{name}})
				}
			}
		}
		list = append(list, &huma.Schema{Required: group, Not: none})
	}
	return list
}

// Answers.

type startAnswer struct {
	Turn OpenedTurn `json:"turn"`
}

// OpenedTurn is a turn as its client sees it.
type OpenedTurn struct {
	ID           string         `json:"id"`
	Status       string         `json:"status" enum:"OPEN,COMPLETED_WITH_CONTEXT_DELIVERY,COMPLETED_WITHOUT_CONTEXT_DELIVERY,EXPIRED_OR_INCOMPLETE,REPORTED_CANCELLED,REPORTED_FAILED"`
	Environment  string         `json:"environment" enum:"production,staging"`
	Profile      string         `json:"profile"`
	OpenedAt     evidence.Time  `json:"openedAt"`
	ExpiresAt    evidence.Time  `json:"expiresAt" doc:"The turn takes nothing from then on."`
	Deliveries   int64          `json:"deliveries"`
	Observations int64          `json:"observations" doc:"Accepted reports of a hook before a tool was to run; nothing more."`
	ContextCalls int64          `json:"contextCalls"`
	LateReports  int64          `json:"lateReports" doc:"Completions that were reported after expiry; they change nothing."`
	CompletedAt  *evidence.Time `json:"completedAt" nullable:"true"`
	Head         string         `json:"head" doc:"SEQ:HASH of the newest event of the turn's chain."`
}

// Called is what the answer of every tool holds.
type Called struct {
	Interaction InteractionRef `json:"interaction"`
	TurnID      *string        `json:"turnId" nullable:"true" doc:"null outside a turn."`
}

// InteractionRef names a recorded call.
type InteractionRef struct {
	ID         string                    `json:"id" doc:"Of the record, which was committed before this answer was sent."`
	Tool       string                    `json:"tool" enum:"compass,resolve,find,why,report-gap,test,doctor"`
	RecordedAt evidence.Time             `json:"recordedAt"`
	Build      wire.Nullable[turn.Build] `json:"build" doc:"The Build or draft that the answer was taken from; null when nothing is published."`
}

// ResolvedItem is an item with its text.
type ResolvedItem tools.Item

// ItemProvenance says where an item comes from.
type ItemProvenance struct {
	Ref          string                    `json:"ref"`
	Title        string                    `json:"title"`
	Source       string                    `json:"source"`
	Author       string                    `json:"author"`
	SHA256       string                    `json:"sha256"`
	Supersedes   []string                  `json:"supersedes"`
	SupersededBy []string                  `json:"supersededBy"`
	Conflicts    []string                  `json:"conflicts"`
	Build        wire.Nullable[turn.Build] `json:"build"`
}

// EarlierSelection is what an earlier interaction handed out.
type EarlierSelection struct {
	InteractionID string                    `json:"interactionId"`
	Tool          string                    `json:"tool"`
	Build         wire.Nullable[turn.Build] `json:"build"`
	Items         []perimeter.SelectedItem  `json:"items"`
}

type compassAnswer struct {
	Called
	Verdict string              `json:"verdict" enum:"covered,partial,gap,conflict" doc:"By a rule about words, no judgement of a model."`
	Text    string              `json:"text" doc:"Of all items, at most 64 KiB."`
	Items   []tools.CompassItem `json:"items"`
}

type resolveAnswer struct {
	Called
	Item ResolvedItem `json:"item"`
}

type findAnswer struct {
	Called
	Items []tools.FindItem `json:"items"`
}

type whyAnswer struct {
	Called
	Provenance *ItemProvenance   `json:"provenance,omitempty" doc:"Of a ref."`
	Selection  *EarlierSelection `json:"selection,omitempty" doc:"Of an interaction."`
}

type gapAnswer struct {
	Called
	GapID string `json:"gapId" doc:"The same gap has the same id."`
}

type testAnswer struct {
	Called
	Passed   bool     `json:"passed"`
	Expected []string `json:"expected"`
	Missing  []string `json:"missing" doc:"What was expected and not found."`
	Found    int      `json:"found" doc:"How many of the expected."`
}

type doctorAnswer struct {
	Called
	Client      perimeter.DoctorClient    `json:"client"`
	Profile     string                    `json:"profile"`
	Environment string                    `json:"environment" enum:"production,staging"`
	Protocol    string                    `json:"protocol" enum:"seif.http-turn.v1,none"`
	Build       wire.Nullable[turn.Build] `json:"build"`
	Clock       evidence.Time             `json:"clock"`
}

type observationAnswer struct {
	Observation perimeter.Observed `json:"observation"`
}

type completeAnswer struct {
	Receipt perimeter.Completed `json:"receipt"`
}

type bridgeAnswer struct {
	Receipt perimeter.BridgeReceipt `json:"receipt"`
}
