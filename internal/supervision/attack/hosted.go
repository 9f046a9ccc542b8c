package attack

// hosted is the attack that needs a store (L-18).
var hosted []Attack
