package runbookhttp

// AddressOf is by what new sessions of a peer are counted.
var AddressOf = addressOf
