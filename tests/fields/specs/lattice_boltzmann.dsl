# Flow past nothing at all: a D2Q9 lattice Boltzmann fluid on a torus, whose viscosity and forcing are learnt.
model lattice_boltzmann(
    f0: f64[X, Y, 9], cx: i32[9], cy: i32[9], w: f64[9], steps = 5
) -> (rho: [X, Y], ux: [X, Y], uy: [X, Y]):
    param log_tau: [] = -0.3
    param force: [X, Y] ~ zeros
    tau = 0.5 + exp(log_tau)
    scan s in 0..steps:
        density[x, y] = sum[q](f[s-1, x, y, q])
        jx[x, y] = f[s-1, x, y, q] * cx[q]
        jy[x, y] = f[s-1, x, y, q] * cy[q]
        vx[x, y] = jx[x, y] / density[x, y] + force[x, y] * tau
        vy[x, y] = jy[x, y] / density[x, y]
        cu[x, y, q] = cx[q] * vx[x, y] + cy[q] * vy[x, y]
        eq[x, y, q] = (
            w[q]
            * density[x, y]
            * (1 + 3 * cu[x, y, q] + 4.5 * cu[x, y, q]^2 - 1.5 * (vx[x, y]^2 + vy[x, y]^2))
        )
        post[x, y, q] = f[s-1, x, y, q] - (f[s-1, x, y, q] - eq[x, y, q]) / tau
        f[s, x: X, y: Y, q] = post[wrap(x - cx[q]), wrap(y - cy[q]), q]
    start f = f0
    rho[x, y] = sum[q](f[steps-1, x, y, q])
    ux[x, y] = f[steps-1, x, y, q] * cx[q] / rho[x, y]
    uy[x, y] = f[steps-1, x, y, q] * cy[q] / rho[x, y]

train lattice_boltzmann(f0, cx, cy, w, seen: f64[X, Y]):
    rho, ux, uy = lattice_boltzmann(f0, cx, cy, w)
    minimize mean[x, y]((ux[x, y] - seen[x, y])^2) + mean[x, y](uy[x, y]^2) + mean((rho - 1)^2)
    using adam(lr = 1e-2)
