package attack

// other are the attacks beside the boundary cases, each on one service (G-17).
var other []Attack
