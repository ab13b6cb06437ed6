// Types of zoosim.mjs, for TypeScript and editors: keep it beside that.

export type Scalar = null | boolean | number | string;
/** What is known of a visitor or a product, by column. */
export type Columns = Record<string, Scalar | Scalar[]>;
/** An id, or an `id` and the columns of a product's features. */
export type Candidate = string | number | Columns;

export interface Answered {
  /** The decision's id, which feedback names. */
  id: string;
  /** What to show, from the top. */
  products: string[];
  /** The digest by which the service knows the model that decided. */
  model: string;
  /** The arm that decided. */
  arm: string;
  /** Candidates that could not be shown. */
  ignored: string[];
  /** Lines on what of the request the model was not made for. */
  warnings: string[];
}

export interface Decision extends Answered {
  /** The product to show at the top, and the probability with which it was drawn. */
  product: string;
  propensity: number;
  /** The propensity of each product, given those above it. */
  shownPropensities: number[];
  /** The propensity of each candidate for the top. */
  propensities: Record<string, number>;
  /** Places, 1 being the top, that show pinned products. */
  pinned: number[];
  /** Candidates that a rule of the shop kept back, by rule. */
  barred: Record<string, string[]>;
  /** Rules that did not hold, since they left nothing. */
  lifted: string[];
}

export interface Ranking extends Answered {
  /** The boosts that made the ranking. */
  boosts: number[];
  /** That of the boosts; null where they were not drawn. */
  density: number | null;
}

export interface RequestOptions {
  decisionId?: string;
  visitorId?: string;
  defer?: boolean;
}

export interface DecideOptions extends RequestOptions {
  count?: number;
  pinned?: Record<number, string>;
  forbidden?: string[];
}

export const TRIES: number;
export const FIRST_PAUSE: number;
export const LONGEST_PAUSE: number;
export const TIMEOUT: number;

/** The service refused a request, or could not be reached: `status` is 0 where it gave no answer. */
export class ServiceError extends Error {
  constructor(message: string, status: number);
  status: number;
}

export class Client {
  constructor(url: string, options?: { key?: string; timeout?: number; loop?: string });
  decide(visitor: Columns, candidates?: Candidate[], options?: DecideOptions): Promise<Decision>;
  rank(
    visitor: Columns,
    candidates: Record<string, number> | { id: string; score: number }[],
    options?: RequestOptions,
  ): Promise<Ranking>;
  giveFeedback(
    decisionId: string,
    rewards: Record<string, number>,
    options?: { product?: string; feedbackId?: string },
  ): Promise<"accepted" | "duplicate" | "late">;
  activate(decisionId: string): Promise<"accepted" | "duplicate" | "late">;
}
