"""What rows tell of the coefficients of products, and of how these deviate from what products share."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray


class PrecisionBlock(NamedTuple):
    """Precisions A that the data give some `products (B,)`, as `matrices (B, q, q)` or as fewer rows of each.

    With m < q rows `matrices (B, m, q)` are F with A = F' F: then all costs what the rows tell, not q^3.
    """

    products: IntArray
    matrices: FloatArray

    @property
    def is_whole(self) -> bool:
        """True if the matrices are the precisions themselves."""
        return bool(self.matrices.shape[1] == self.matrices.shape[2])

    def summed_out(self, variances: FloatArray) -> "Deviations":
        """Return what is known of deviations whose prior variances are `variances (q,)`."""
        f = self.matrices
        if self.is_whole:
            # G = (A^-1 + D)^-1 = A (A + D^-1)^-1 D^-1.
            inverse = np.asarray(np.linalg.inv(f + np.diag(1.0 / variances)), np.float64)
            return Deviations(self.products, variances, f, f @ inverse / variances, inverse)  # for A singular, too
        inner = np.eye(f.shape[1]) + (f * variances) @ f.transpose(0, 2, 1)
        return Deviations(self.products, variances, f, np.asarray(np.linalg.solve(inner, f), np.float64), None)


class Deviations(NamedTuple):
    """Precisions and covariances of some `products (B,)`, whose deviations have prior variances D, `prior (q,)`.

    Of whole precisions A there are `right`, G = (A^-1 + D)^-1, and `inverse`, (A + D^-1)^-1. Of `rows` F there is
    `right`, (1 + F D F')^-1 F, and the others follow (Woodbury 1950).
    """

    products: IntArray
    prior: FloatArray
    rows: FloatArray
    right: FloatArray
    inverse: FloatArray | None

    def among(self, places: IntArray) -> "Deviations":
        """Return what is known of some of the products, by their places `(b,)` among these."""
        inverse = None if self.inverse is None else self.inverse[places]
        return Deviations(self.products[places], self.prior, self.rows[places], self.right[places], inverse)

    @property
    def marginal(self) -> FloatArray:
        """The precision of coefficients around what is predicted, G `(B, q, q)`."""
        return self.right if self.inverse is not None else np.asarray(self.rows.transpose(0, 2, 1) @ self.right)

    @property
    def covariance(self) -> FloatArray:
        """The covariance of coefficients, what is predicted being true, (A + D^-1)^-1 `(B, q, q)`."""
        if self.inverse is not None:
            return self.inverse
        return np.asarray(np.diag(self.prior) - (self.rows * self.prior).transpose(0, 2, 1) @ (self.right * self.prior))

    def times(self, vectors: FloatArray) -> FloatArray:
        """Return the covariance times `vectors (B, q)`."""
        if self.inverse is not None:
            return np.asarray((self.inverse @ vectors[:, :, None])[:, :, 0])
        scaled = self.prior * vectors
        told = self.rows.transpose(0, 2, 1) @ (self.right @ scaled[:, :, None])
        return np.asarray(scaled - self.prior * told[:, :, 0])

    def covariance_around(self, of_predicted: FloatArray) -> FloatArray:
        """Return the covariances of coefficients where those of what is predicted are S, `of_predicted (B, q, q)`."""
        if self.inverse is not None:
            gain = self.inverse / self.prior
            return np.asarray(self.inverse + gain @ of_predicted @ gain.transpose(0, 2, 1))
        # With G = F' R: D - D G D + (1 - D G) S (1 - G D), in products of few rows alone.
        scaled = self.rows * self.prior
        along = self.right @ of_predicted
        half = 0.5 * self.right * self.prior + along - 0.5 * (along @ self.right.transpose(0, 2, 1)) @ scaled
        told = scaled.transpose(0, 2, 1) @ half
        return np.asarray(np.diag(self.prior) + of_predicted - told - told.transpose(0, 2, 1))

    def determined(self, of_predicted: FloatArray) -> FloatArray:
        """Return by how much the data determine deviations, added up `(q,)`: of each 1 less posterior over prior.

        That is D (G - G S G), S being the covariances of what is predicted, `of_predicted (B, q, q)`.
        """
        along = self.right @ of_predicted
        if self.inverse is not None:
            known = np.einsum("kii->i", self.right) - np.einsum("kij,kji->i", along, self.right)
        else:
            along = along @ self.rows.transpose(0, 2, 1)
            known = np.einsum("kai,kai->i", self.rows, self.right - along @ self.right)
        return np.asarray(self.prior * known)
