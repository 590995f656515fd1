/**
 * How long a step may take before its test gives up, in milliseconds. It is chosen for a
 * load of 20 on two cores, where a second of work takes half a minute.
 */
export const patience = 2 * 60_000;
