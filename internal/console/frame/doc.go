// Package frame is what every page has in common: the layout with its style and
// scripts, who may see it, how a refusal looks, and the stream that keeps it current.
//
// A package of pages parses its templates with [Parse], once, and registers each page
// with [Frame.Page], or with [Frame.Public] where everybody may see it. What it hands over
// is a [Page], whose main part the layout takes up. Everything that the frame adds of its
// own, the state of the freeze above all, is read after the page itself.
package frame
