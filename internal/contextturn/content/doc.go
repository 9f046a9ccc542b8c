// Package content is what a project hands out: documents, the test cases that
// say what they should answer, and the manifest that makes one Build of them.
//
// # Documents
//
// A document is one Markdown file in UTF-8 with front matter in YAML between two
// lines of three dashes:
//
//	---
//	id: refunds/gift-cards
//	title: Refund an order that was paid with a gift card
//	tags: [refund, gift card]
//	profiles: [support]
//	author: Payments team
//	source: https://wiki.example.com/refunds
//	supersedes: [refunds/gift-cards-2023]
//	conflicts: [refunds/store-credit]
//	---
//	The money goes back to a new card …
//
// id and title are required, and so is some text below; everything else may be
// left out. A document without profiles is for every profile; one with profiles
// is for those alone. supersedes and conflicts name ids of the same folder. A
// conflict holds between both documents although only one of them names it.
//
// The reader is strict: an unknown or repeated key, a value that is not text
// (write 2024 in quotes), an anchor, an alias or a tag is a fault. An id has at
// most 200 of the characters A-Z a-z 0-9 . _ : / - and begins with a letter or a
// digit; it is called ref wherever it is named from outside. A profile is 1 to 40
// of a-z 0-9 -.
//
// # Test cases
//
// A case is one file tests/NAME.json: {"id", "task", "expectRefs"}. It passes when
// every ref it names is among the items that compass returns for the task.
//
// # Builds
//
// A document is addressed by the SHA-256 of its bytes, a Build by the SHA-256 of
// its [Manifest] in canonical form. The same folder gives the same digest on every
// machine. A search index is derived from a Build and is never part of it.
//
// Functions that find something wrong return every [Fault] they see, each with the
// file, the line if it is known, and what to do. All functions are safe for
// concurrent use and keep no state.
package content

// Bounds of what is published.
const (
	// MaxDocument bounds one document, in bytes with its front matter.
	MaxDocument = 256 << 10
	// MaxFrontMatter bounds what stands between the dashes, in bytes.
	MaxFrontMatter = 16 << 10
	// MaxDocuments bounds a Build, in documents.
	MaxDocuments = 20_000
	// MaxBuild bounds a Build, in bytes of its documents.
	MaxBuild = 512 << 20
	// MaxCases bounds a Build, in test cases.
	MaxCases = 2_000
	// MaxCase bounds one file of tests/, in bytes.
	MaxCase = 32 << 10
	// MaxRef bounds an id, in characters.
	MaxRef = 200
	// MaxTitle bounds a title or an author, in characters.
	MaxTitle = 200
	// MaxSource bounds a source, in characters.
	MaxSource = 500
	// MaxTag bounds a tag, in characters.
	MaxTag = 50
	// MaxTags bounds the tags of a document.
	MaxTags = 20
	// MaxNames bounds each of profiles, supersedes and conflicts.
	MaxNames = 50
	// MaxTask bounds the task of a case, in characters.
	MaxTask = 4_000
	// MaxExpected bounds the refs that a case expects.
	MaxExpected = 20
)
