/**
 * The timeout of a step, in milliseconds. It is chosen for a load of 20 on two cores, where a
 * second of work takes half a minute.
 */
export const stepTimeout = 2 * 60_000;
